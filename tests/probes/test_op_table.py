"""Operators of an update: who called whom, and what is left for Python."""

import time

import pytest
import torch
from torch import nn

from netdyno.probes.op_table import Span, collect, reduced
from netdyno.targets.workload import Workload


def spans(*rows):
    return [Span(name, thread, start, end) for name, thread, start, end in rows]


def test_own_time_leaves_out_what_happens_inside():
    found = reduced(spans(("aten::linear", 1, 0, 100), ("aten::t", 1, 5, 15), ("aten::addmm", 1, 20, 90)))
    assert dict(found.own) == {"aten::linear": 20, "aten::t": 10, "aten::addmm": 70}


def test_an_operator_inside_another_is_no_dispatch():
    found = reduced(spans(("aten::linear", 1, 0, 100), ("aten::addmm", 1, 20, 90), ("aten::relu", 1, 100, 110)))
    assert found.dispatches == 2
    assert dict(found.calls) == {"aten::linear": 1, "aten::addmm": 1, "aten::relu": 1}


def test_an_operator_inside_a_node_of_the_backward_pass_is_a_dispatch():
    found = reduced(spans(("AddmmBackward0", 1, 0, 100), ("aten::mm", 1, 10, 50), ("aten::mm", 1, 50, 90)))
    assert found.dispatches == 2
    assert found.own["AddmmBackward0"] == 20


def test_threads_do_not_lie_inside_each_other():
    found = reduced(spans(("aten::a", 1, 0, 100), ("aten::b", 2, 10, 20)))
    assert found.own["aten::a"] == 100
    assert found.dispatches == 2


def subject(forward=None):
    data = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    return Workload(
        model=lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2)),
        train=lambda: (data, (data.sum(1) > 0).long()),
        forward=forward,
        batch_size=8,
        name="w",
    ).fresh(0)


def test_the_operators_of_a_model_are_counted():
    calls = {op.name: op.calls for op in collect(subject(), steps=2).ops}
    assert calls["aten::addmm"] == 2
    assert calls["aten::relu"] == 1
    assert calls["aten::mm"] == 3  # two weights, and one input that has a gradient


def test_time_that_user_code_sleeps_is_outside_of_operators():
    def forward(model, batch):
        time.sleep(0.05)
        return model(batch[0])

    assert collect(subject(forward), steps=2).python_s >= 0.04


def test_data_loading_is_left_out():
    found = collect(subject(), steps=2)
    assert not any("DataLoader" in op.name for op in found.ops)
    assert "aten::stack" not in {op.name for op in found.ops}
    assert found.operator_s == pytest.approx(sum(op.seconds for op in found.ops))
