import math

import pytest
import torch

from monitor.gauges.rides import aboard, data, network, one, ridden


def test_each_layer_and_the_whole_have_their_norms():
    model = network()
    by_hand = []

    def note():
        by_hand.append([math.hypot(*(p.grad.norm().item() for p in model[at].parameters())) for at in (0, 2)])

    told = ridden("gradient-norms", model, updates=5, each=note)
    assert told.points["gradient_norm/0"] == pytest.approx([first for first, _ in by_hand], rel=1e-5)
    assert told.points["gradient_norm/2"] == pytest.approx([last for _, last in by_hand], rel=1e-5)
    assert told.points["gradient_norm"] == pytest.approx([math.hypot(*both) for both in by_hand], rel=1e-5)
    assert told.points["gradient_norm_max"] == pytest.approx([max(both) for both in by_hand], rel=1e-5)
    assert told.points["gradient_norm_min"] == pytest.approx([min(both) for both in by_hand], rel=1e-5)
    assert told.points["gradient_norm_mean"] == pytest.approx([sum(both) / 2 for both in by_hand], rel=1e-5)
    assert told.updates["gradient_norm"] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("fused", [False, True])
def test_a_scalers_factor_is_not_in_them(fused):
    plain = ridden("gradient-norms", network(), updates=1).points["gradient_norm"]
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)  # a fused one takes the factor out itself
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    x, y = data()
    with aboard(one("gradient-norms")) as told:
        scaler.scale(torch.nn.functional.cross_entropy(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
    assert told.points["gradient_norm"] == pytest.approx(plain, rel=1e-5)


def test_a_closures_gradients_are_read_when_it_has_made_them():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x, y = data()

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    with aboard(one("gradient-norms")) as told:
        for at in range(4):
            x = x * (1 + at)
            optimizer.step(closure)
            assert told.points["gradient_norm"][-1] == pytest.approx(
                math.hypot(*(p.grad.norm().item() for p in model.parameters())), rel=1e-5
            )
    assert told.updates["gradient_norm"] == [1, 2, 3, 4]


def test_norms_above_what_half_precision_holds_are_told():
    weight = torch.nn.Parameter(torch.zeros(100, dtype=torch.float16))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    with aboard(one("gradient-norms")) as told:
        for _ in range(2):
            optimizer.zero_grad()
            (weight * 60000.0).float().sum().backward()
            optimizer.step()
    assert told.points["gradient_norm"][0] == pytest.approx(600_000, rel=0.01)


def test_the_second_of_two_optimizers_is_marked():
    model = network()
    optimizers = [torch.optim.SGD(model[at].parameters(), lr=0.1) for at in (0, 2)]
    x, y = data()
    with aboard(one("gradient-norms")) as told:
        for _ in range(3):
            model.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            for optimizer in optimizers:
                optimizer.step()
    assert len(told.points["gradient_norm/0"]) == 3
    assert "gradient_norm/2@1" in told.points
