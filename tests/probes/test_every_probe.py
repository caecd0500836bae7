"""What each probe promises: it explains itself, says what it cost, and leaves no trace."""

import importlib.util
import random
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from netdyno import plugins
from netdyno.measure.step import one_batch, train_on
from netdyno.measure.stopwatch import thread_clock
from netdyno.probes._base import HEADINGS, Pace, asked_for, probes
from netdyno.records.evidence import AnyEvidence, Evidence

_spec = importlib.util.spec_from_file_location("probe_specimens", Path(__file__).with_name("specimens.py"))
specimens = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(specimens)

ALL = sorted(probes())


@pytest.fixture(params=ALL)
def module(request):
    found = probes()[request.param]
    assert not isinstance(found, plugins.Broken), found
    return found


def collected(module, subject, workload):
    pace = Pace(workload=workload, ceilings=None, clock=thread_clock(), steps=2, budget_s=0.1)
    return module.collect(subject, **asked_for(module.collect, pace))


def everything(subject):
    """All of a subject that a probe could have touched, as values that can be compared."""
    model, optimizer = subject.model, subject.optimizer
    numeric = np.random.get_state()[1]  # noqa: NPY002  it is the global state that is meant
    tensors = [*model.parameters(), *model.buffers()]
    tensors += [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for parameter in model.parameters():
        tensors += [value for value in optimizer.state.get(parameter, {}).values() if isinstance(value, torch.Tensor)]
    return {
        "bytes": [(one.data_ptr(), one.stride(), one.dtype, one.detach().numpy().tobytes()) for one in tensors],
        "requires": [parameter.requires_grad for parameter in model.parameters()],
        "groups": [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups],
        "modes": [part.training for part in model.modules()],
        "hooks": [
            (list(part._forward_hooks), list(part._forward_pre_hooks), list(part._backward_hooks))
            for part in model.modules()
        ],
        "optimizer_hooks": (list(optimizer._optimizer_step_pre_hooks), list(optimizer._optimizer_step_post_hooks)),
        "chance": (random.getstate(), numeric.tolist(), torch.get_rng_state().tolist()),
        "switches": (
            torch.get_num_threads(), torch.get_default_dtype(), torch.get_float32_matmul_precision(),
            torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(),
        ),
    }  # fmt: skip


def test_it_explains_itself_under_the_three_headings(module):
    for heading in HEADINGS:
        assert heading in module.__doc__, heading


def test_it_says_what_it_cost_and_can_be_stored(module):
    workload = specimens.workload()
    found = collected(module, workload.fresh(0), workload)
    assert isinstance(found, Evidence)
    assert found.cost_s > 0
    assert msgspec.json.decode(msgspec.json.encode(found), type=AnyEvidence) == found


@pytest.mark.parametrize("steps_before", [0, 2])
def test_the_subject_is_as_before_to_the_byte(module, steps_before):
    workload = specimens.workload()
    subject = workload.fresh(0)
    for _ in range(steps_before):
        train_on(subject, one_batch(subject))
    before = everything(subject)
    collected(module, subject, workload)
    assert everything(subject) == before


def test_it_leaves_no_trace_also_when_the_model_raises(module):
    calls = []

    def forward(model, batch):
        calls.append(1)
        if len(calls) == 3:
            raise ValueError("the third time")
        return model(batch[0])

    workload = specimens.workload(forward=forward)
    subject = workload.fresh(0)
    before = everything(subject)
    try:
        collected(module, subject, workload)
    except ValueError:
        assert len(calls) == 3
    assert everything(subject) == before


def test_it_runs_on_data_that_can_only_be_read_in_order(module):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            images = specimens.Images()
            return iter([images[index] for index in range(64)])

    workload = specimens.workload(train=Stream, augment=None)
    assert isinstance(collected(module, workload.fresh(0), workload), Evidence)
