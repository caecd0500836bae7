"""Frozen traces: what the tracer notices, and the specimens that it ruins (ledger A-242)."""

import warnings

import numpy as np
import pytest
import torch

from netdyno.errors import ArmError
from netdyno.records.deployment import Running
from netdyno.runtimes.torchscript import Torchscript
from runtimes.specimens import arrays_of, decibels, expected, exportable, images, release, rows

PLAIN = Torchscript(optimised=False)


def written(name, folder, **more):
    """The notes of an export in this process."""
    return PLAIN.export(exportable(name, **more), folder)


def test_a_traced_branch_is_noted_and_answers_one_way_only(tmp_path):
    notes = written("BranchingRows", tmp_path)
    assert [note for note in notes if "Converting a tensor to a Python boolean" in note]
    call = PLAIN.load(tmp_path, Running())
    for sign, same in ((1, True), (-1, False)):
        tensors = (sign * rows(2),)
        assert (decibels(call(arrays_of(tensors)), expected(release("BranchingRows"), tensors)) > 80) == same


def test_a_trace_that_hangs_on_the_number_of_rows_is_refused(tmp_path):
    with pytest.raises(ArmError, match="differs from call to call"):
        written("BakedRows", tmp_path)


def test_a_trace_that_fails_for_other_numbers_of_rows_is_refused(tmp_path):
    with pytest.raises(ArmError, match="cannot be traced"):
        written("FixedRows", tmp_path)


def test_fixed_numbers_of_rows_have_a_file_each(tmp_path):
    written("BakedRows", tmp_path, batches=(1, 4), dynamic=False)
    call = PLAIN.load(tmp_path, Running(batches=(1, 4)))
    for count in (1, 4):
        tensors = (rows(8)[:count],)
        assert decibels(call(arrays_of(tensors)), expected(release("BakedRows"), tensors)) > 100
    with pytest.raises(ValueError, match="3 rows were given; it was exported for 1, 4"):
        call(arrays_of((rows(3),)))


def test_functional_dropout_is_refused_as_random(tmp_path):
    with pytest.raises(ArmError, match="it is random"):
        written("AlwaysDroppingRows", tmp_path)


def test_a_trace_made_in_training_mode_stays_random_after_eval(tmp_path):
    assert not release("TracedInTrainingRows").module().training
    written("TracedInTrainingRows", tmp_path)
    call = PLAIN.load(tmp_path, Running())
    (first,), (second,) = call(arrays_of((rows(4),))), call(arrays_of((rows(4),)))
    assert not np.array_equal(first, second)


def test_a_squeezed_batch_of_one_stays_as_the_module_has_it(tmp_path):
    written("SqueezedPictures", tmp_path)
    (answer,) = PLAIN.load(tmp_path, Running())(arrays_of((images(1)[0],)))
    assert answer.shape == (4,)  # one row came in, and four came out: the ladder sees it


def test_neighbours_change_a_row_where_a_module_takes_the_statistics_of_the_batch():
    found = release("BatchStatisticsRows")
    (both,), (more,) = (expected(found, (torch.cat((rows(2), other)),)) for other in (rows(0), rows(2) + 1))
    assert decibels((more[:2],), (both,)) < 20


def test_the_file_is_written_before_it_is_optimised(tmp_path):
    """PyTorch cannot write packed weights: such a file is small, and loading it fails."""
    for runtime in (PLAIN, Torchscript()):
        folder = tmp_path / str(runtime.optimised)
        folder.mkdir()
        runtime.export(exportable("Pictures"), folder)
    sizes = {path.stat().st_size for path in tmp_path.rglob("*.ts")}
    assert max(sizes) - min(sizes) < 100
    tensors = (images(3)[0],)
    answers = Torchscript().load(tmp_path / "True", Running())(arrays_of(tensors))
    assert decibels(answers, expected(release("Pictures"), tensors)) > 80


def test_that_it_is_deprecated_is_said_once_by_us_and_not_by_pytorch(tmp_path):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        written("Pictures", tmp_path)
        PLAIN.load(tmp_path, Running())(arrays_of((images(2)[0],)))
    assert not [warning for warning in said if "deprecated" in str(warning.message)]
    assert Torchscript.legacy
