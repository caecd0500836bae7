"""Evaluation against training: how often, how long."""

import pytest

from netdyno.rules.costly_evaluation import _use, costly_evaluation


def test_a_graph_network_that_evaluates_twice_after_every_update():
    finding = costly_evaluation(_use(rounds=40, forwards=80, seconds=4.0))
    assert "2 passes after every update" in finding.says
    assert finding.saves.high == pytest.approx(4 / 9)


def test_a_validation_set_that_outweighs_its_epoch():
    assert "100 passes after every 10 updates" in costly_evaluation(_use(rounds=4, forwards=400, seconds=9.0)).says


@pytest.mark.parametrize(("rounds", "found"), [(1, False), (2, False), (3, True)])
def test_what_a_short_look_may_catch_by_chance_is_not_judged(rounds, found):
    assert (costly_evaluation(_use(rounds=rounds, forwards=100, seconds=9.0)) is not None) == found


def test_one_pass_after_each_update_is_judged_by_its_time_alone():
    assert costly_evaluation(_use(rounds=40, forwards=40, seconds=4.9)) is None
    assert costly_evaluation(_use(rounds=40, forwards=40, seconds=5.1)) is not None


def test_an_empty_span_is_not_judged():
    assert costly_evaluation(_use(rounds=4, forwards=4, seconds=0.0, training=0.0)) is None
