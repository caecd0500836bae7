from dataclasses import replace

import pytest
import torch

from learning.test_range_test import setup, sgd
from netdyno.errors import NetdynoError
from netdyno.knobs.clip import Clip
from netdyno.learning.clip_advice import advised, last_layer_norm, observed


def lengths(count=400, *, scale=1.0, tail=0, seed=0):
    draw = torch.Generator().manual_seed(seed)
    norms = (scale * (1 + 0.2 * torch.randn(count, generator=draw)).clamp(0.2)).tolist()
    for at in range(tail):
        norms[60 + at * (count - 60) // tail] *= 30
    return norms


def by_rule(found):
    return {one.rule: one for one in found.thresholds}


def test_the_ninetieth_percentile_cuts_a_tenth():
    found = advised(lengths())
    assert by_rule(found)["percentile 90"].rate == pytest.approx(0.1, abs=0.01)
    assert found.recommended == by_rule(found)["percentile 90"].value


def test_a_fixed_norm_may_cut_everything_or_nothing():
    assert by_rule(advised(lengths(scale=20.0)))["norm 1"].rate == 1.0
    assert by_rule(advised(lengths(scale=0.01)))["norm 1"].rate == 0.0
    assert "a lower rate under another name" in advised(lengths(scale=20.0)).says


def test_three_rules_are_compared():
    rules = by_rule(advised(lengths(), last_layer=2.0))
    assert rules["0.9 x norm of the last layer"].value == pytest.approx(1.8)
    assert {"percentile 90", "norm 1", "norm 0.5", "norm 2", "norm 5"} <= rules.keys()


def test_clipping_is_called_needed_only_where_norms_have_a_tail():
    assert not advised(lengths()).needed
    assert "no tail to be cut" in advised(lengths()).says
    assert advised(lengths(tail=8)).needed


def test_norms_above_ten_are_counted():
    assert advised(lengths(tail=8)).alarms == 8
    assert advised(lengths()).alarms == 0


def test_a_gradient_that_is_none_is_an_alarm_and_no_length():
    norms = lengths()
    norms[200] = float("nan")
    found = advised(norms)
    assert found.alarms == 1
    assert found.recommended < 2


def test_the_first_updates_do_not_count():
    norms = lengths(100)
    norms[:10] = [1000.0] * 10
    assert advised(norms).recommended < 2


def test_too_few_norms_tell_nothing():
    with pytest.raises(NetdynoError, match="cannot tell a threshold"):
        advised(lengths(20))


def test_norms_are_observed_before_they_are_clipped():
    norms, last = observed(setup(sgd), updates=8)
    clipped, _ = observed(Clip("norm", 1e-3).turned(setup(sgd)), updates=8)
    assert len(norms) == 8
    assert last > 0
    assert clipped[0] == norms[0] > 1e-3


def test_what_breaks_says_why():
    def breaking(output, batch):
        raise RuntimeError("no such target")

    with pytest.raises(NetdynoError, match="no such target"):
        observed(replace(setup(sgd), loss=breaking))


def test_the_last_layer_is_the_one_declared_last():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    assert last_layer_norm(model) == pytest.approx(float(model[2].weight.detach().norm()))
    assert last_layer_norm(torch.nn.ReLU()) == 0.0
