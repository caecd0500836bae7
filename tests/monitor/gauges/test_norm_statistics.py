import torch

from monitor.gauges.rides import network, ridden


def drifting(x, updates=250, each=None):
    model = network(norm=True)
    return ridden(
        "norm-statistics", model, torch.optim.SGD(model.parameters(), lr=0.0), x=x, updates=updates, each=each
    )


def test_statistics_of_data_that_stay_the_same_come_to_rest():
    told = drifting(torch.randn(64, 6, generator=torch.Generator().manual_seed(0)))
    assert len(told.points["norm_drift/mean/1"]) == 2
    assert told.points["norm_drift/mean"][-1] < 0.01
    assert told.points["norm_drift/var"][-1] < 0.01


def test_data_that_change_move_them_by_more_than_a_third():
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    steps = iter(range(1000))
    told = drifting(x, updates=310, each=lambda: next(steps) == 205 and x.mul_(2.0).add_(1.0))
    assert told.points["norm_drift/var"][-1] > 0.35
    assert told.points["norm_drift/mean"][-1] > 0.35


def test_channels_without_variance_are_counted():
    model = network(norm=True)
    with torch.no_grad():
        model[0].weight[:3] = 0.0
    told = ridden("norm-statistics", model, torch.optim.SGD(model.parameters(), lr=0.0), updates=250)
    assert told.points["norm_flat_channels"][-1] == 3


def test_a_model_without_such_statistics_has_none():
    assert not ridden("norm-statistics", network()).points
