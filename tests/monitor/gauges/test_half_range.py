import pytest
import torch

from monitor.gauges.rides import aboard, one


def told_of(values):
    """What is told of gradients with these values."""
    weight = torch.nn.Parameter(torch.zeros(len(values)))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    with aboard(one("half-range")) as told:
        for _ in range(3):
            optimizer.zero_grad()
            (weight * torch.tensor(values)).sum().backward()
            optimizer.step()
    return {name.removeprefix("half_range/gradients/"): told.points[name][-1] for name in told.points}


def test_planted_values_are_counted_by_the_limits_of_float16():
    found = told_of([0.0] * 10 + [1e-9] * 20 + [1e-6] * 30 + [1.0] * 35 + [1e5] * 4 + [float("inf")])
    assert found == pytest.approx({"zero": 0.1, "flushed": 0.2, "subnormal": 0.5, "overflow": 0.05})


def test_ordinary_values_are_in_range():
    assert told_of([0.5, -0.25, 1e-3, 100.0]) == {"zero": 0, "flushed": 0, "subnormal": 0, "overflow": 0}


def test_the_models_output_is_counted_too():
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.fill_(1e5)
        model.bias.zero_()
    with aboard(one("half-range")) as told:
        model(torch.ones(4, 2)).sum().backward()
    assert told.points["half_range/output/overflow"] == [1.0]


def test_in_float32_it_looks_seldom_and_in_half_precision_each_time():
    for dtype, looks in ((torch.float32, 2), (torch.bfloat16, 16)):
        model = torch.nn.Linear(2, 2, dtype=dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        with aboard(one("half-range")) as told:
            for _ in range(16):
                model(torch.ones(4, 2, dtype=dtype)).float().sum().backward()
                optimizer.step()
        assert len(told.points["half_range/gradients/zero"]) == looks
