import math

import pytest
import torch
from torch import nn

from netdyno.learning.run import evaluated, rounds, setup_of, state_bytes, train, trained
from netdyno.targets.workload import Workload


def blobs(count=240, seed=0):
    """Three clouds of points in the plane."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    centres = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    return centres[labels] + 0.7 * torch.randn(count, 2, generator=draw), labels


def workload(**changed):
    settings = {
        "name": "blobs",
        "model": lambda: nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3)),
        "train": blobs,
        "val": lambda: blobs(90, seed=1),
        "optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
        "batch_size": 24,
        "epochs": 4,
    }
    return Workload(**{**settings, **changed})


def run(subject=None, *, updates=40, seed=1, **told):
    return train(setup_of(subject or workload(), updates=updates), seed=seed, stage="optim", knob="start", **told)


def test_a_run_learns_and_tells_its_course():
    found = run()
    assert found.failed is None
    assert found.score > 0.9
    assert [at for at, _, _ in found.course] == [4, 8, 12, 16, 20, 24, 28, 32, 36, 40]
    assert found.course[-1][1:] == (found.loss, found.score)
    assert len(found.classes) == 3
    assert math.isclose(sum(found.classes) / 3, found.score)  # classes are of one size


def test_the_updates_are_those_of_the_workload_unless_told():
    assert setup_of(workload()).updates == 40
    assert setup_of(workload(), updates=7).updates == 7


def test_one_seed_gives_the_same_weights_to_the_bit_and_another_does_not():
    setup = setup_of(workload(), updates=12)
    (_, one), (_, same), (_, other) = (trained(setup, seed=seed, stage="optim", knob="start") for seed in (1, 1, 2))
    weights = [torch.cat([p.flatten() for p in model.parameters()]) for model in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_run_leaves_the_random_state_as_it_was():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run(updates=3)
    assert torch.equal(torch.rand(3), expected)


def test_evaluating_more_often_changes_nothing_that_is_learned():
    assert run(evaluations=2).score == run(evaluations=20).score


def test_what_diverges_says_so_and_has_no_score():
    found = run(workload(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e12)))
    assert found.score is None
    assert "diverged" in found.failed


def test_what_the_users_code_raises_is_told_with_its_place():
    def broken():
        raise RuntimeError("no such layer")

    found = run(workload(model=broken))
    assert found.failed.startswith("RuntimeError: no such layer")
    assert "test_run.py" in found.failed


def test_a_hopeless_run_is_given_up_and_a_late_one_is_cut():
    pruned = run(prune=lambda course: len(course) == 2)
    assert pruned.updates == 8
    assert "given up" in pruned.failed
    ticks = iter(range(1000))
    late = run(deadline=1.5, clock=lambda: float(next(ticks)))
    assert "the time was over after 20 of 40" in late.failed


def test_regression_without_a_metric_is_scored_by_its_loss():
    line = lambda: (torch.linspace(-1, 1, 64)[:, None], torch.linspace(-2, 2, 64)[:, None])
    found = run(workload(model=lambda: nn.Linear(1, 1), train=line, val=line))
    assert found.score == -found.loss
    assert found.classes == ()


@pytest.mark.parametrize(
    ("optimizer", "times"),
    [(torch.optim.Adam, 2.0), (torch.optim.AdamW, 2.0), (lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9), 1.0)],
)
def test_the_state_of_an_optimizer_is_counted_in_bytes(optimizer, times):
    model = nn.Linear(30, 20)
    update = optimizer(model.parameters(), lr=0.1)
    model(torch.randn(4, 30)).sum().backward()
    update.step()
    assert state_bytes(update) == times * sum(p.nbytes for p in model.parameters())


def test_an_optimizer_that_searches_along_lines_trains_too():
    found = run(workload(optimizer=lambda parameters: torch.optim.LBFGS(parameters, lr=0.1)), updates=10)
    assert found.failed is None
    assert found.score > 0.8


def test_the_best_weights_are_given_back_where_the_setup_says_so():
    from dataclasses import replace

    setup = replace(setup_of(workload(), updates=30), best=True)
    found, model = trained(setup, seed=3, stage="reg", knob="early-stopping", evaluations=6)
    assert found.loss == min(loss for _, loss, _ in found.course)  # chosen by the loss: the score praises no luck
    again = evaluated(setup.workload, model, setup.forward, setup.workload.feed(blobs_dataset()), torch.device("cpu"))
    assert again.score == found.score


def blobs_dataset():
    return torch.utils.data.TensorDataset(*blobs())


def test_validation_leaves_every_module_in_its_mode():
    frozen = []

    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = nn.BatchNorm1d(2), nn.Linear(2, 3)

        def train(self, mode=True):
            super().train(mode)
            self.norm.eval()
            frozen.append(self.norm.training)
            return self

        def forward(self, x):
            return self.head(self.norm(x))

    found, model = trained(setup_of(workload(model=Half), updates=6), seed=0, stage="arch", knob="start")
    assert found.failed is None
    assert model.training
    assert not model.norm.training


def test_rounds_are_even_and_end_with_the_last_update():
    assert rounds(100, 4) == (25, 50, 75, 100)
    assert rounds(1, 10) == (1,)
