import torch
from torch import nn

from netdyno.learning.running_statistics import strayed


def small_batches(size=8, count=400, channels=16):
    chance = torch.Generator().manual_seed(0)
    return [(2 + 3 * torch.randn(size, channels, generator=chance), None) for _ in range(count)]


def test_a_slower_average_lies_nearer_to_all_data_at_a_small_batch():
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 2))
    quick, slow = strayed(model, small_batches(), updates=1000)
    assert (quick.momentum, slow.momentum) == (0.1, 0.01)
    # The theory: deviations of a moving average go with sqrt(m / (2 - m)), 3.2 times less.
    assert 2 < quick.variance / slow.variance < 5
    assert 2 < quick.mean / slow.mean < 5
    assert quick.worst_variance >= quick.variance


def test_a_slow_average_is_worse_when_it_has_had_no_time():
    model = nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 2))
    quick, slow = strayed(model, small_batches(count=40), updates=40)
    assert slow.variance > quick.variance


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.Linear(16, 4), nn.BatchNorm1d(4)).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    strayed(model, small_batches(count=10))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not model.training


def test_one_batch_again_and_again_is_met_exactly():
    batches = small_batches(size=4000, count=1)
    (found,) = strayed(nn.Sequential(nn.BatchNorm1d(16)), batches, momenta=(1.0,), updates=2)
    assert found.worst_mean < 1e-5
    assert found.worst_variance < 1e-3  # one value fewer in the denominator
