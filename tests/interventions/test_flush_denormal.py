"""Numbers too small for full precision: counted, flushed on every thread for a turn, and kept again after it."""

import pytest
import torch

from interventions.specimens import WORDS, facts, timeline, trained
from netdyno.interventions import flush_denormal as module
from netdyno.interventions.flush_denormal import FlushDenormal, denormals, flushing
from netdyno.measure.step import turning

TINY = 1e-40


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def share_flushed():
    return float((torch.full((1 << 20,), TINY) * 1.0 == 0).float().mean())


def decayed():
    """A subject of whose optimizer state a part has decayed below full precision."""
    subject = trained(WORDS)
    for state in subject.optimizer.state.values():
        state["momentum_buffer"].fill_(TINY)
    return subject


@pytest.mark.skipif(module._pause() is None, reason="OpenMP's threads cannot be made anew here")
def test_inside_a_turn_every_thread_flushes_and_afterwards_none(two_threads):
    with FlushDenormal().applied(decayed()) as subject:
        for _ in range(3):
            with turning(subject):
                assert share_flushed() == 1.0
            assert share_flushed() == 0.0


def test_the_mode_is_found_out_by_trying(two_threads):
    assert not flushing()
    torch.set_flush_denormal(True)
    try:
        assert flushing()
        assert "already" in FlushDenormal().refuses(decayed())
    finally:
        torch.set_flush_denormal(False)


def test_a_subject_without_such_numbers_is_refused_with_the_count():
    assert "0 are too small" in FlushDenormal().refuses(trained(WORDS))


def test_such_numbers_are_counted_in_weights_and_optimizer_state():
    subject = decayed()
    seen = denormals(subject)
    assert seen.denormal == sum(parameter.numel() for parameter in subject.model.parameters())
    assert seen.share == pytest.approx(0.5)


def test_threads_that_cannot_be_made_anew_are_a_reason_to_refuse(monkeypatch, two_threads):
    monkeypatch.setattr(module, "_pause", lambda: None)
    assert "cannot be made anew" in FlushDenormal().refuses(decayed())


def test_it_promises_no_more_than_half_of_the_compute_phases():
    assert FlushDenormal().predicts(facts(timeline(data=50, forward=25, backward=25))).high == pytest.approx(0.25)
