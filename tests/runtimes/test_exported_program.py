"""A graph that needs no code, and the ways of a model that a graph cannot follow."""

import pytest
import torch
from torch import nn

from netdyno.errors import ArmError
from netdyno.records.deployment import Running
from netdyno.runtimes.exported_program import ExportedProgram
from runtimes.specimens import arrays_of, decibels, expected, exportable, printed, release, rows

LOADING = """
import pathlib, sys
import numpy as np
from netdyno.records.deployment import Running
from netdyno.runtimes.exported_program import ExportedProgram
call = ExportedProgram().load(pathlib.Path(sys.argv[1]), Running())
print(call((np.zeros((3, 3, 16, 16), np.float32),))[0].shape, any("specimens" in name for name in sys.modules))
"""


@pytest.mark.slow
def test_it_loads_without_the_code_of_the_module(tmp_path):
    ExportedProgram().export(exportable("Pictures"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]
    assert printed(LOADING, str(tmp_path)).split("\n")[-2] == "(3, 10) False"


@pytest.mark.parametrize("name", ["BakedRows", "FixedRows"])
def test_a_fixed_number_of_rows_is_named_in_one_line(name, tmp_path):
    with pytest.raises(ArmError, match="its code fixes the number of rows") as caught:
        ExportedProgram().export(exportable(name), tmp_path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_branch_on_values_is_refused(tmp_path):
    with pytest.raises(ArmError, match=r"torch\.export cannot follow it"):
        ExportedProgram().export(exportable("BranchingRows"), tmp_path)


def test_a_python_number_of_rows_is_right_when_each_number_is_exported(tmp_path):
    subject = exportable("BakedRows", batches=(1, 4), dynamic=False)
    ExportedProgram().export(subject, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows1.pt2", "rows4.pt2"]
    call = ExportedProgram().load(tmp_path, Running(batches=(1, 4)))
    for count in (1, 4):
        tensors = (rows(8)[:count],)
        assert decibels(call(arrays_of(tensors)), expected(release("BakedRows"), tensors)) > 100
    with pytest.raises(ValueError, match="3 rows were given; it was exported for 1, 4"):
        call(arrays_of((rows(3),)))


class TwoWays(nn.Module):
    """One of two layers is never used."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(8, 4), nn.Linear(8, 1000)
        self.wide = False

    def forward(self, x):
        return self.unused(x) if self.wide else self.used(x)


def test_a_branch_that_is_not_taken_is_not_in_the_file(tmp_path):
    subject = exportable("BakedRows")
    object.__setattr__(subject, "model", TwoWays().eval())
    ExportedProgram().export(subject, tmp_path)
    held = torch.export.load(tmp_path / "model.pt2")
    assert set(held.state_dict) == {"used.weight", "used.bias"}
    assert (tmp_path / "model.pt2").stat().st_size < 30_000  # the unused layer alone is 36 kB


class Summing(nn.Module):
    """Takes any number of inputs, the first of them by name."""

    def forward(self, first, *others):
        return first + sum(other.mean(1, keepdim=True) for other in others)


def test_inputs_without_a_name_of_their_own_are_followed_too(tmp_path):
    subject = exportable("Sentences")
    object.__setattr__(subject, "model", Summing().eval())
    object.__setattr__(subject, "example", (rows(4), rows(4, seed=6)))
    ExportedProgram().export(subject, tmp_path)
    tensors = rows(3, seed=7), rows(3, seed=8)
    (answer,) = ExportedProgram().load(tmp_path, Running())(arrays_of(tensors))
    assert decibels((answer,), arrays_of((Summing()(*tensors),))) > 100
