"""Gradients that are forgotten instead of zeroed; their tensors come back afterwards."""

from dataclasses import replace

from interventions.specimens import PLAIN_IMAGES, facts, stepped, timeline, trained
from netdyno.interventions.set_to_none import SetToNone


def zeroing():
    """A subject that fills gradients with zeros, as some programs still do, and has taken some steps."""
    subject = replace(trained(PLAIN_IMAGES), set_to_none=False)
    stepped(subject, 1)
    return subject


def test_inside_gradients_are_none_between_steps_and_afterwards_the_same_zeros():
    subject = zeroing()
    gradient = subject.model.head.weight.grad
    with SetToNone().applied(subject) as inside:
        stepped(inside, 1)
        assert subject.model.head.weight.grad is None
    assert subject.model.head.weight.grad is gradient
    assert not gradient.any()


def test_the_steps_are_the_same_to_the_bit():
    subject, other = zeroing(), zeroing()
    with SetToNone().applied(subject) as inside:
        taken = stepped(inside, 3)
    assert taken == stepped(other, 3)
    assert stepped(subject, 2) == stepped(other, 2)


def test_a_program_that_does_it_already_is_refused():
    assert "already" in SetToNone().refuses(trained(PLAIN_IMAGES, 0))
    assert SetToNone().refuses(zeroing()) is None


def test_it_promises_a_small_part_of_the_phases_that_touch_gradients():
    prediction = SetToNone().predicts(facts(timeline(forward=50, backward=30, optimizer=20)))
    assert 0 < prediction.high <= 0.05
