import pytest
import torch

from monitor.gauges.rides import aboard, network, one, ridden
from netdyno.monitor.subject import Subject


class Planted(torch.nn.Module):
    """Gives what it was given."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))

    def forward(self, x):
        return {"hidden": None, "logits": x * self.weight}


def planted(values, updates=1):
    model = Planted()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with aboard(one("output")) as told:
        for _ in range(updates):
            model(values)["logits"].sum().backward()
            optimizer.step()
    return told


def test_mean_and_spread_are_those_of_what_was_planted():
    values = torch.randn(64, 10, generator=torch.Generator().manual_seed(0)) * 3 + 5
    told = planted(values)
    assert told.points["output/mean"] == [pytest.approx(values.mean().item(), rel=1e-4)]
    assert told.points["output/std"] == [pytest.approx(values.std(correction=0).item(), rel=1e-4)]
    assert told.points["output/min"] == [values.min().item()]
    assert told.points["output/max"] == [values.max().item()]


def test_an_answer_that_is_the_same_for_each_sample_has_no_spread():
    told = planted(torch.tensor([[1.0, 2.0, 3.0]] * 8))
    assert told.points["output/spread"] == [0.0]
    assert told.points["output/std"][0] > 0.5


def test_the_histogram_has_the_shape_of_what_was_planted():
    values = torch.cat([torch.full((30, 1), -1.0), torch.full((10, 1), 1.0)])
    (shape,) = planted(values).of("histogram")
    assert len(shape["edges"]) == len(shape["counts"]) + 1
    assert (shape["counts"][0], shape["counts"][-1], sum(shape["counts"])) == (30, 10, 40)
    assert (shape["edges"][0], shape["edges"][-1]) == (-1.0, 1.0)


def test_values_that_are_not_finite_are_counted_beside_it():
    (shape,) = planted(torch.tensor([[1.0], [float("nan")], [2.0]])).of("histogram")
    assert shape["not_finite"] == 1


def test_histograms_grow_rarer():
    told = planted(torch.randn(4, 2), updates=300)
    assert 16 < len(told.of("histogram")) < 90


def test_a_large_output_is_sampled_over_all_its_rows():
    values = torch.zeros(512, 1000)
    values[256:] = 1.0
    assert planted(values).points["output/mean"] == [0.5]


def test_evaluation_is_not_the_trainings_output():
    model = network()
    told = ridden("output", model, updates=2, each=lambda: torch.no_grad()(model)(torch.ones(4, 6)))
    assert len(told.points["output/mean"]) == 2


def test_a_network_that_is_called_within_a_named_model_is_seen_all_the_same():
    outer = torch.nn.ModuleDict({"net": network()})
    optimizer = torch.optim.SGD(outer.parameters(), lr=0.1)
    with aboard(one("output"), Subject({"model": outer}, (optimizer,))) as told:
        outer["net"](torch.ones(4, 6)).sum().backward()
        optimizer.step()
    assert len(told.points["output/mean"]) == 1


def test_two_models_have_their_own_series():
    models = {"generator": network(), "judge": network()}
    with aboard(one("output"), Subject(models)) as told:
        for model in models.values():
            model(torch.ones(4, 6)).sum().backward()
    assert {"output/mean", "output/mean@judge"} <= set(told.points)
