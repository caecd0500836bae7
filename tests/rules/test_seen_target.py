"""When a model is told to see what it predicts."""

from netdyno.rules._calls import losses, probe, used
from netdyno.rules.seen_target import seen_target


def test_a_model_that_was_not_asked_is_left_alone():
    assert seen_target(losses(used(shifted="next")), probe()) is None


def test_only_targets_that_are_the_next_ids_can_be_seen():
    assert seen_target(losses(used(shifted="none")), probe(later=2.0, earlier=2.0)) is None


def test_the_line_of_the_loss_is_told():
    assert seen_target(losses(used(shifted="next")), probe(later=2.0, earlier=2.0)).where.line == 40
