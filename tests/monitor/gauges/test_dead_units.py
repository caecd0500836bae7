import pytest
import torch
import torch.nn.functional as F

from monitor.gauges.rides import network, ridden


class Functional(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.hidden, self.last = torch.nn.Linear(6, 16), torch.nn.Linear(16, 3)

    def forward(self, x):
        return self.last(F.relu(self.hidden(x)))


def test_units_under_a_large_negative_bias_are_all_dead():
    model = network()
    with torch.no_grad():
        model[0].bias.fill_(-50.0)
    told = ridden("dead-units", model)
    assert set(told.points["dead_units/0"]) == {1.0}
    assert set(told.points["dead_units/2"]) == {0.0}


def test_which_units_and_how_many_samples_say_so_is_written_down_once():
    model = Functional()
    with torch.no_grad():
        model.hidden.bias[[3, 5]] = -50.0
    told = ridden("dead-units", model, updates=30)
    (event,) = told.of("dead_units")
    assert event["layers"] == {"hidden": {"dead": 2, "of": 16, "units": [3, 5]}}
    assert event["samples"] == 8 * 64
    assert told.points["dead_units/hidden"][-1] == pytest.approx(2 / 16)


def test_a_healthy_model_has_none():
    told = ridden("dead-units", network())
    assert set(told.points["dead_units"]) == {0.0}
    assert not told.of("dead_units")


def test_a_loss_of_zero_says_nothing_of_units():
    told = ridden("dead-units", network(), loss_of=lambda output, _: (output * 0.0).sum())
    assert not told.points
