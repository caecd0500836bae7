"""Augmentation policies say their numbers."""

import json
from dataclasses import replace

import pytest

from netdyno.audits._policy import Transform, meaning, parsed, read, strong, validated
from netdyno.audits._specimens import specimen
from netdyno.audits.unquantified_augmentation import unquantified_augmentation
from netdyno.errors import NetdynoError


def test_a_policy_without_numbers_is_refused(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text('[[transform]]\nname = "rotate"\n\n[[transform]]\nname = "blur"\nsigma = 1.0\n')
    with pytest.raises(NetdynoError, match="how strong `rotate` is"):
        validated(read(path))
    view = replace(specimen("images"), notes={"policy": path})
    assert "rotate" in unquantified_augmentation(view).says


def test_a_factor_of_a_fifth_is_told_from_a_jitter_of_a_fifth():
    factor = Transform("adjust_contrast", {"contrast_factor": 0.2})
    jitter = Transform("ColorJitter", {"contrast": 0.2})
    assert strong(factor)
    assert not strong(jitter)
    assert "always 0.2 times" in meaning(factor)
    assert "0.8 to 1.2 times" in meaning(jitter)


def test_json_is_read_like_toml(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps([{"rotate": {"degrees": 10}}, {"name": "RandomHorizontalFlip", "p": 0.5}]))
    assert len(validated(read(path))) == 2


def test_a_probability_is_no_strength_but_of_a_mirror():
    assert not Transform("rotate", {"p": 0.5}).quantified
    assert Transform("HorizontalFlip", {"p": 0.5}).quantified


def test_medical_pictures_are_neither_turned_nor_mirrored():
    held = {"domain": "medical", "transform": [{"name": "hflip", "p": 0.5}, {"name": "contrast", "contrast": 0.2}]}
    view = replace(specimen("images"), notes={"policy": held})
    assert "hflip" in unquantified_augmentation(view).says


def test_a_file_that_is_no_policy_is_told_in_three_lines(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text("= 3")
    with pytest.raises(NetdynoError, match="cannot read the policy"):
        read(path)
    with pytest.raises(NetdynoError, match="no transform"):
        parsed({})
