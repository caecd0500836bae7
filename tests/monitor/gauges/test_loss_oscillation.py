import numpy as np
import torch
import torch.nn.functional as F

from netdyno.monitor.gauges.loss_oscillation import score


def trained(rate, batch=32):
    torch.manual_seed(0)
    x = torch.randn(512, 20)
    y = (x[:, :5] + 0.5 * torch.randn(512, 5)).argmax(1)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    for _ in range(256):
        rows = torch.randint(0, 512, (batch,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_learning_rate_that_is_too_high_scores_far_above_a_tuned_one():
    for batch, high in ((32, 0.5), (512, 2.0)):
        tuned, wild = score(trained(0.05, batch))[0], score(trained(high, batch))[0]
        assert tuned < 0.1
        assert wild > 0.5


def test_independent_noise_is_no_oscillation():
    random = np.random.default_rng(0)
    scores = [score((1 + 0.3 * random.normal(size=256)).clip(0.01).tolist())[0] for _ in range(100)]
    assert sorted(scores)[97] == 0
    assert max(scores) < 0.15


def test_a_fast_descent_with_noise_scores_little():
    random = np.random.default_rng(0)
    for _ in range(20):
        losses = np.exp(-np.arange(256) / 20 + 0.3 * random.normal(size=256))
        assert score(losses.tolist())[0] < 0.15


def test_too_short_or_not_finite_series_have_no_score():
    assert score([1.0] * 10) is None
    assert score([1.0] * 100 + [float("nan")]) is None
