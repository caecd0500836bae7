"""Compilation: refused without a compiler, undone without a trace, its graph breaks listed with their lines."""

import shutil
import sysconfig
from pathlib import Path

import pytest
import torch
from torch import nn

from interventions.specimens import IMAGES, WORDS, bytes_of, facts, stepped, timeline
from netdyno.interventions import compile_model as module
from netdyno.interventions.compile_model import CompileModel, graph_breaks
from netdyno.measure.step import one_batch
from netdyno.records.evidence import Op, OpTable
from netdyno.targets.workload import Workload

THIS_FILE = Path(__file__).name


class Peeking(nn.Module):
    """Reads a value back in the middle of its forward, which no graph can hold."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.norm(x)
        if x.sum().item() > 1e9:
            x = x * 2
        return self.head(x)


PEEKING = Workload(
    name="peeking", model=Peeking, train=lambda: (torch.randn(32, 4), torch.arange(32) % 2), batch_size=8
)


def operators(**seconds):
    ops = tuple(Op(name=f"aten::{name}", calls=1.0, seconds=spent) for name, spent in seconds.items())
    return OpTable(ops=ops, dispatches=10.0, operator_s=sum(seconds.values()), python_s=0.0)


def test_graph_breaks_are_listed_with_their_lines_and_the_subject_is_as_before():
    subject = PEEKING.fresh(0)
    before, random = bytes_of(subject.model), torch.get_rng_state()
    found = graph_breaks(subject, one_batch(subject), backend="eager")
    assert found.breaks >= 1
    assert found.graphs >= 2
    assert any(THIS_FILE in reason for reason in found.reasons)
    assert bytes_of(subject.model) == before
    assert torch.equal(torch.get_rng_state(), random)
    assert all(parameter.grad is None for parameter in subject.model.parameters())
    assert "_is_torch_compile" not in vars(subject.model)


def test_a_model_without_breaks_is_one_graph():
    found = graph_breaks(WORDS.fresh(0), one_batch(WORDS.fresh(0)), backend="eager")
    assert (found.graphs, found.breaks, found.reasons) == (1, 0, ())


def test_the_model_is_not_marked_afterwards_also_when_the_inside_raised():
    subject = WORDS.fresh(0)
    names = set(vars(subject.model))
    with CompileModel().applied(subject) as inside:
        assert inside.called is not None
        assert inside.model is subject.model
    with pytest.raises(ZeroDivisionError), CompileModel().applied(subject):
        raise ZeroDivisionError
    assert set(vars(subject.model)) == names


def test_compiled_code_is_forgotten_only_with_the_last_compiled_side(monkeypatch):
    import torch._dynamo

    forgotten = []
    monkeypatch.setattr(torch._dynamo, "reset", lambda: forgotten.append(True))
    with CompileModel().applied(WORDS.fresh(0)):
        with CompileModel().applied(IMAGES.fresh(0)):
            pass
        assert not forgotten
    assert forgotten == [True]


def test_without_a_compiler_or_headers_it_refuses_and_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "`no-such-compiler`" in CompileModel().refuses(WORDS.fresh(0))
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/it")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert "Python.h" in CompileModel().refuses(WORDS.fresh(0))


def test_an_unknown_mode_and_a_compiled_model_are_refused():
    assert "`fastest`" in CompileModel(mode="fastest").refuses(WORDS.fresh(0))
    from dataclasses import replace

    subject = WORDS.fresh(0)
    compiled = replace(subject, model=torch.compile(subject.model))
    assert "compiled already" in CompileModel().refuses(compiled)


def test_it_is_probed_under_a_time_out_and_the_edit_says_all_that_was_measured():
    assert CompileModel.seconds_to_try > 0
    assert CompileModel().code() == 'model = torch.compile(model, options={"fallback_random": True})'
    assert "dynamic=True" in CompileModel(dynamic=True).code()
    assert '"triton.cudagraphs": True' in CompileModel(mode="reduce-overhead").code()
    assert set(module.MODES) == {"default", "reduce-overhead"}


def test_it_promises_a_part_of_what_is_neither_product_nor_convolution():
    spent = timeline(data=20, forward=30, backward=50)
    assert CompileModel().predicts(facts(spent, operators(convolution=0.04, relu=0.04))).high == pytest.approx(0.24)
    assert CompileModel().predicts(facts(spent, operators(addmm=0.98, relu=0.02))) is None
    assert CompileModel().predicts(facts(spent)).high == pytest.approx(0.2)
    assert CompileModel().predicts({}) is None


@pytest.mark.slow
@pytest.mark.skipif(CompileModel().refuses(WORDS.fresh(0)) is not None, reason="no compiler")
def test_compiled_steps_draw_the_same_dropout_and_lead_to_nearly_the_same_losses():
    plain, subject = stepped(WORDS.fresh(0), 3), WORDS.fresh(0)
    with CompileModel().applied(subject) as inside:
        compiled = stepped(inside, 3)
    assert compiled.losses == pytest.approx(plain.losses, rel=1e-4)
