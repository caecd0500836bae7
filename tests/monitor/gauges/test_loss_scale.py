import math

import torch

from monitor.gauges.rides import aboard, data, network, one


def scaled(bad, updates=20, **settings):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, **settings)
    x, y = data()
    with aboard(one("loss-scale")) as told:
        for at in range(updates):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss * (math.inf if at in bad else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
    return told


def test_a_normal_run_keeps_its_scale_and_skips_nothing():
    told = scaled(())
    assert told.points["loss_scale"] == [2.0**16]
    assert told.points["skip_rate_total"] == [0.0]


def test_skips_and_a_collapsing_scale_are_told():
    told = scaled(range(5, 10))
    assert told.points["loss_scale"] == [2.0 ** (16 - at) for at in range(6)]
    assert told.points["skip_rate"] == [0.25]


def test_a_run_without_a_scaler_says_nothing_of_one():
    model = network()
    with aboard(one("loss-scale")) as told:
        torch.nn.functional.cross_entropy(model(data()[0]), data()[1]).backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert not told.points
