"""How a course of losses is read: what counts as learning, as breaking, and as a fresh start."""

import pytest

from netdyno.rules import _learning as room


def test_what_was_learnt_is_told_as_a_share_of_knowing_nothing():
    assert room.learnt(room.course(2.3, 1.15, 0.23), room.stepper()) == pytest.approx(0.9)


def test_losses_below_zero_have_no_such_share():
    assert room.learnt(room.course(2.0, -1.0, -3.0), room.stepper()) is None


def test_without_a_comparable_chance_the_start_stands_for_it():
    course = room.course(40.0, 20.0, 10.0, chance=2.3)
    assert room.reference(course, room.stepper(divided=3.0)) == 40.0
    assert room.reference(course, room.stepper(divided=1.0)) == 2.3


@pytest.mark.parametrize(
    ("losses", "scale"), [(room.FALLS, 1e-9), (room.FALLS, 1.0), (room.FALLS, 1e9), ((2.3, 2.2, 2.1, 2.4), 1e6)]
)
def test_a_run_that_falls_or_stays_has_not_diverged_at_any_scale(losses, scale):
    assert not room.diverged(room.course(*(scale * loss for loss in losses)))


def test_a_loss_that_breaks_at_the_end_has_diverged():
    assert room.diverged(room.course(2.3, 9.0, broke=30, last_finite=False))
    assert not room.diverged(room.course(*room.FALLS, broke=30, nonfinite=1))


def test_a_checkpoint_did_not_begin_afresh():
    assert room.began_afresh(room.course(2.4, 2.3), room.stepper())
    assert not room.began_afresh(room.course(0.2, 0.19), room.stepper())


def test_gradients_vanish_only_where_they_shrink_layer_by_layer():
    steep = [room.weight(f"{n}", gradient=10.0**n) for n in range(6)]
    mixed = [room.weight(f"{n}", gradient=size) for n, size in enumerate((1, 5, 0.1, 7, 0.2, 3))]
    assert room.vanishing(steep) == pytest.approx(1e5)
    assert room.vanishing(mixed) is None
    assert room.vanishing(steep[:3]) is None
