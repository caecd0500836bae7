"""`netdyno data` with what is named beside the data: a policy of augmentation, a vocabulary."""

import json

import numpy as np
import pytest

from netdyno.audits._specimens import specimen
from netdyno.cli._app import main


@pytest.fixture
def images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    view = specimen("images", sizes=(60, 40))
    val = view.parts["val"]
    np.savez("a.npz", x_train=view.train.x, y_train=view.train.y, x_val=val.x, y_val=val.y)
    return tmp_path


def test_a_policy_without_numbers_fails_the_gate(images, capsys):
    (images / "policy.toml").write_text('[[transform]]\nname = "rotate"\n')
    words = ["data", "a.npz", "--policy", "policy.toml", "--fail-on", "unquantified-augmentation", "--json"]
    assert main(words) == 1
    told = json.loads(capsys.readouterr().out)
    assert "unquantified-augmentation" in {each["id"] for each in told["findings"]}


def test_files_that_cannot_be_read_are_told_in_three_lines(images, capsys):
    assert main(["data", "a.npz", "--policy", "none.toml"]) == 2
    assert "cannot read the policy" in capsys.readouterr().err
    assert main(["data", "a.npz", "--vocabulary", "none.txt"]) == 2
    assert "cannot read the vocabulary" in capsys.readouterr().err


def test_a_vocabulary_of_other_words_is_found(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    view = specimen("text", sizes=(80, 60))
    for name, part in view.parts.items():
        rows = [f"{text},{label}" for text, label in zip(part.x, part.y, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["words,label", *rows]) + "\n")
    (tmp_path / "words.txt").write_text("\n".join(word for text in view.train.x[:2] for word in text.split()))
    words = ["data", "train.csv", "--target-column", "label", "--test", "val.csv", "--vocabulary", "words.txt"]
    assert main([*words, "--fail-on", "unknown-words"]) == 1
    assert "of the vocabulary" in capsys.readouterr().out
