"""Packages of AOTInductor: checks are on, each number of rows has its own, and int8 leaves in float what it is told to."""

import os

import pytest
import torch

from netdyno.errors import ArmError
from netdyno.records.deployment import Running
from netdyno.runtimes import _base as base
from netdyno.runtimes.aot_inductor import AotInductor
from runtimes.specimens import arrays_of, decibels, expected, exportable, images, release, traits_of


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A package for one row and for four, exported in this process."""
    if AotInductor().unavailable():
        pytest.skip(AotInductor().unavailable())
    folder = tmp_path_factory.mktemp("package")
    notes = AotInductor().export(exportable("Pictures", batches=(4, 1)), folder)
    return folder, notes


@pytest.mark.slow
def test_each_number_of_rows_has_a_package_and_others_are_padded_or_split(package):
    folder, notes = package
    assert sorted(path.name for path in folder.iterdir()) == ["rows1.pt2", "rows4.pt2"]
    assert notes == ("compiled for 1, 4 rows; others are padded or split",)
    call = AotInductor().load(folder, Running())
    for count in (1, 2, 4, 7):
        tensors = (images(count, seed=6)[0],)
        assert decibels(call(arrays_of(tensors)), expected(release("Pictures"), tensors)) > 80


@pytest.mark.slow
def test_wrong_strides_sizes_and_types_are_errors_in_the_package_itself(package):
    """Without the checks each of these is answered with garbage, or reads beyond the array."""
    folder, _ = package
    AotInductor().load(folder, Running())
    assert os.environ["AOTI_RUNTIME_CHECK_INPUTS"] == "1"
    raw = torch._C._aoti.AOTIModelPackageLoader(str(folder / "rows4.pt2"), "model", False, 1, -1)
    good = images(4)[0]
    assert raw.run([good])[0].shape == (4, 10)
    for bad in (good.to(memory_format=torch.channels_last), good[:2], good.double(), good[..., :15].contiguous()):
        with pytest.raises(RuntimeError, match="unmatched"):
            raw.run([bad])


def test_int8_needs_torchao_and_calibration_data(monkeypatch):
    monkeypatch.setattr(base, "_absent", lambda name: True)
    monkeypatch.setattr(base, "which", lambda name: name)
    assert "`torchao`" in AotInductor("int8").unavailable()
    assert AotInductor().unavailable() is None
    traits = traits_of(release("Pictures"), calibration=False)
    assert "calibration" in AotInductor("int8").refuses(traits)
    assert AotInductor().refuses(traits) is None


def test_a_package_without_files_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        AotInductor().load(tmp_path, Running())


def quantised(name, ignored=(), **more):
    pytest.importorskip("torchao", reason="int8 needs torchao: pip install 'netdyno[ship]'")
    from netdyno.runtimes import _quantised

    return _quantised.quantised(exportable(name, **more), None, ignored)


def test_int8_answers_like_the_module_and_says_how_much_is_quantised():
    found = quantised("Pictures")
    assert found.says == "6 of 6 layers are in int8, set up by 8 calibration rows"
    tensors = (images(24, seed=4)[0],)
    with torch.no_grad():
        answers = arrays_of((found.model(*tensors),))
    assert 15 < decibels(answers, expected(release("Pictures"), tensors)) < 70


def test_layers_left_in_float_are_left_in_float():
    found = quantised("Pictures", ignored=("head", "blocks.0"))
    assert found.says.startswith("3 of 6 layers are in int8")


def test_a_layer_that_is_not_there_cannot_be_left_in_float():
    with pytest.raises(ArmError, match="no layer `tail`"):
        quantised("Pictures", ignored=("tail",))


def test_attention_and_two_inputs_are_quantised_too():
    found = quantised("Sentences")
    assert found.says == "5 of 5 layers are in int8, set up by 8 calibration rows"
