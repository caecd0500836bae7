import pytest
import torch

from monitor.gauges.rides import aboard, network, one, train


def test_the_rate_equals_that_of_scripted_norms():
    norms = iter([0.5, 2.0, 3.0, 0.9, 0.1, 4.0, 0.2, 0.3, 0.4, 0.6])
    model = network()
    parameter = next(model.parameters())

    def clip():
        norm = next(norms)
        for p in model.parameters():
            p.grad.zero_()
        parameter.grad.view(-1)[0] = norm
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    with aboard(one("clip-rate")) as told:
        train(model, torch.optim.SGD(model.parameters(), lr=0.0), updates=10, each=clip)
    assert told.points["clip_rate"] == [0.3]
    assert told.points["clip_rate_total"] == [0.3]
    assert told.points["clip_norm"] == [pytest.approx(4.0)]


def test_a_run_without_clipping_has_no_rate():
    model = network()
    with aboard(one("clip-rate")) as told:
        train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert not told.points
