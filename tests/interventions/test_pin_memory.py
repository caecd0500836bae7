"""Pinned memory and asynchronous copies come as a pair."""

from dataclasses import replace

import pytest
import torch

from interventions.specimens import WORDS, facts, timeline
from netdyno.interventions.pin_memory import PinMemory
from netdyno.targets.subject import to_device


def on(device):
    return replace(WORDS.fresh(), device=torch.device(device), place=(to_device(torch.device(device)),))


def test_a_model_on_the_cpu_has_nowhere_to_copy_to():
    assert "CPU" in PinMemory().refuses(WORDS.fresh())


def test_slices_are_not_pinned_by_a_loader():
    subject = on("meta")
    assert PinMemory().refuses(subject) is None
    direct = replace(subject, feed=replace(subject.feed, direct=lambda chosen: chosen))
    assert "no loader" in PinMemory().refuses(direct)


def test_both_halves_are_switched_on(monkeypatch):
    asked = []
    copied = on("meta")
    monkeypatch.setattr(
        torch.Tensor, "to", lambda self, device, non_blocking=False: asked.append((device, non_blocking)) or self
    )
    with PinMemory().applied(copied) as subject:
        assert subject.feed.pin_memory
        subject.placed((torch.zeros(1),))
    assert asked == [(torch.device("meta"), True), (torch.device("meta"), False)]


@pytest.mark.parametrize(("copy", "worth_it"), [(0.5, False), (20, True)])
def test_the_gain_is_a_part_of_the_copies(copy, worth_it):
    prediction = PinMemory().predicts(facts(timeline(copy=copy, forward=100 - copy)))
    assert (prediction is not None) == worth_it
    if worth_it:
        assert prediction.high <= copy / 100


@pytest.mark.gpu
def test_pinned_batches_reach_the_device():
    with PinMemory().applied(on("cuda")) as subject:
        batches = subject.feed.epochs()
        batch = next(batches)
        assert all(tensor.is_pinned() for tensor in batch)
        assert all(tensor.is_cuda for tensor in subject.placed(batch))
        batches.close()
