import pytest
import torch
from torch import nn
from torch.nn import functional as F

from netdyno.knobs.initialisation import drawn
from netdyno.learning.variance_walk import curve, says, steady, walk


def deep(layers=8, width=256, *, scheme=None):
    torch.manual_seed(0)
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*parts, nn.Linear(width, 10))
    return model if scheme is None else drawn(model, scheme)


def a_batch(width=256):
    torch.manual_seed(1)
    return torch.randn(64, width), torch.zeros(64, dtype=torch.long)


def test_weights_drawn_for_relus_keep_the_square_mean_behind_them_at_one_and_the_deviation_before_at_root_two():
    found = walk(deep(scheme="he"), a_batch())
    for one in found[:-1]:
        assert one.passed_on == pytest.approx(1.0, rel=0.15)
    assert found[0].deviation == pytest.approx(1.414, rel=0.05)
    assert steady(found)
    assert "keeps its size" in says(found)


def test_a_deviation_of_one_before_the_relu_is_not_what_is_asked_for():
    # With the gain of a linear layer it is 1 in the first layer, and 2^(-7/2) as much after seven ReLUs more.
    model = deep(scheme="he")
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                layer.weight.div_(2**0.5)
    found = walk(model, a_batch())
    assert found[0].deviation == pytest.approx(1.0, rel=0.05)
    assert not steady(found)
    assert found[7].passed_on / found[0].passed_on == pytest.approx(2**-3.5, rel=0.35)


def test_pytorchs_own_weights_start_at_0_577():
    assert walk(deep(), a_batch())[0].deviation == pytest.approx(0.577, rel=0.06)


def test_a_signal_that_is_lost_is_told():
    model = deep(layers=12, scheme="he")
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(0.3)
    assert "hardly learn" in says(walk(model, a_batch()))
    assert "hardly" not in says(walk(deep(layers=4), a_batch()))
    assert "shrinks" in says(walk(deep(layers=4), a_batch()))


def test_a_signal_that_grows_is_told():
    model = deep(layers=4, scheme="he")
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(20)
    assert "grows" in says(walk(model, a_batch()))


def test_activations_that_are_called_as_functions_are_seen_too():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(256, 256), nn.Linear(256, 10)

        def forward(self, x):
            return self.two(F.relu(self.one(x)))

    model = drawn(Net(), "he")
    assert walk(model, a_batch())[0].passed_on == pytest.approx(1.0, rel=0.15)


def test_the_walk_leaves_model_and_chance_as_they_were():
    model = nn.Sequential(nn.Linear(256, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batch = a_batch()
    torch.manual_seed(3)
    walk(model, batch)
    found = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(found, torch.rand(1))
    assert not model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_fan_of_a_transposed_convolution_is_the_true_one():
    model = nn.Sequential(nn.ConvTranspose2d(64, 64, 3, stride=2), nn.ReLU(), nn.Conv2d(64, 3, 3))
    found = walk(model, (torch.randn(1, 64, 6, 6), None))
    assert [one.fan_in for one in found] == [144.0, 576.0]


def test_a_walk_can_be_drawn():
    drawing = curve(walk(deep(layers=4), a_batch()))
    assert drawing.x == (1.0, 2.0, 3.0, 4.0)
    assert {len(line) for line in drawing.lines.values()} == {4}
