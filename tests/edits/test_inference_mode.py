"""Another word where evaluation goes without gradients."""

import pytest

from edits.specimens import FUNCTIONS, PLAIN, at, edited, refused
from netdyno.records.trial import Change

MODE = Change(id="inference-mode")


def test_a_block_and_a_decorator_are_both_changed():
    assert edited(MODE, PLAIN) == (["    with torch.no_grad():"], ["    with torch.inference_mode():"])
    sites = at(FUNCTIONS, "evaluations", "right += (model(")
    assert edited(MODE, FUNCTIONS, sites) == (["@torch.no_grad()"], ["@torch.inference_mode()"])


def test_a_block_that_updates_weights_by_hand_is_left_alone():
    source = "import torch\nwith torch.no_grad():\n    for p in parameters:\n        p -= rate * p.grad\n"
    refused(MODE, source)


def test_only_the_block_around_the_evaluation_is_changed():
    source = "import torch\nwith torch.no_grad():\n    weights -= 1\nwith torch.no_grad():\n    out = model(x)\n"
    removed, _ = edited(MODE, source, at(source, "evaluations", "out = model"))
    assert len(removed) == 1


def test_an_evaluation_with_gradients_is_named():
    source = "import torch\nout = model(x)\n"
    assert refused(MODE, source, at(source, "evaluations", "out =")).where.line == 2


@pytest.mark.parametrize("line", ["self.kept = model(x)", "global kept; kept = model(x)"])
def test_a_block_that_keeps_tensors_is_left_alone(line):
    source = f"import torch\ndef f(self):\n    with torch.no_grad():\n        {line}\n"
    assert "beyond itself" in refused(MODE, source, at(source, "evaluations", "model(x)")).why
