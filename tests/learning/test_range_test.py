import copy
import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from netdyno.errors import NetdynoError
from netdyno.learning.range_test import concluded, range_test, read_off, smoothed, steps, walked
from netdyno.learning.run import Session, setup_of
from netdyno.targets.workload import Workload


def blobs(count=240, seed=0):
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    centres = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    return centres[labels] + 0.7 * torch.randn(count, 2, generator=draw), labels


def net():
    return nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))


def setup(optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3), **changed):
    told = {"name": "blobs", "model": net, "train": blobs, "optimizer": optimizer, "batch_size": 24, "epochs": 4}
    return setup_of(Workload(**{**told, **changed}))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def state(session):
    """All that a walk could leave behind."""
    return copy.deepcopy((session.model.state_dict(), session.optimizer.state_dict())), torch.get_rng_state()


def equal(one, two):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(equal(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(equal, one, two))
    return one == two


def valley(*, fall_at=1e-3, rise_at=0.3, noise=0.0, seed=0):
    """Losses over the usual rates: level, a fall about one rate, a rise from another."""
    draw = torch.Generator().manual_seed(seed)
    course = steps()
    shaken = (noise * torch.randn(len(course), generator=draw)).tolist()
    losses = [
        2.3 - 1.5 / (1 + math.exp(-3 * math.log(rate / fall_at))) + (rate / rise_at) ** 2 + more
        for rate, more in zip(course, shaken, strict=True)
    ]
    return course, losses


def test_a_walk_multiplies_by_a_tenth_more_at_each_update():
    course = steps()
    assert course[0] == 1e-7
    assert all(math.isclose(after / before, 1.1) for before, after in itertools.pairwise(course))
    assert (len(steps(highest=1e-2)) - 1, len(steps(highest=1.0)) - 1) == (121, 170)


@pytest.mark.parametrize("optimizer", [sgd, lambda parameters: torch.optim.AdamW(parameters, lr=1e-3)])
def test_everything_is_restored_to_the_bit_in_the_midst_of_a_training(optimizer):
    session = Session.begin(setup(optimizer), seed=1)
    batches = session.feed.epochs()
    for _ in range(5):
        session.update(next(batches))
    session.model[0].eval()
    before, modes = state(session), [module.training for module in session.model.modules()]
    walk = walked(session, highest=1.0)
    assert len(walk.losses) > 50
    assert equal(state(session), before)
    assert [module.training for module in session.model.modules()] == modes


def test_a_walk_that_breaks_restores_everything_too():
    session = Session.begin(setup(), seed=1)
    before = state(session)
    calls = iter(range(20))

    def breaking(output, batch):
        if next(calls, None) is None:
            raise RuntimeError("no more")
        return nn.functional.cross_entropy(output, batch[1])

    session.setup = replace(session.setup, loss=breaking)
    with pytest.raises(RuntimeError):
        walked(session)
    assert equal(state(session), before)


def test_the_steepest_descent_is_found_and_not_the_minimum():
    found = read_off(*valley())
    assert 0.5e-3 < found.steepest < 2e-3
    assert found.lowest > 5 * found.steepest


@pytest.mark.parametrize("seed", range(5))
def test_noise_between_batches_moves_the_place_by_less_than_a_factor_of_three(seed):
    found = read_off(*valley(noise=0.15, seed=seed))
    assert 1e-3 / 3 < found.steepest < 3e-3


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_suggests_nothing(seed):
    draw = torch.Generator().manual_seed(seed)
    losses = (2.3 + 0.3 * torch.randn(len(steps()), generator=draw)).tolist()
    assert read_off(steps(), losses).steepest is None


def test_a_loss_that_only_rises_suggests_nothing():
    course = steps()
    assert read_off(course, [1.0 + rate for rate in course]).steepest is None
    assert read_off(course, [1.0] * len(course)).steepest is None


def test_what_is_not_finite_is_left_out():
    course, losses = valley()
    losses[-20:] = [math.nan] * 20
    found = read_off(course, losses)
    assert found.diverged
    assert len(found.losses) == len(course) - 20
    assert found.steepest is not None


def test_walks_under_several_seeds_give_an_interval():
    walks = [read_off(*valley(noise=0.1, seed=seed), seed=seed) for seed in (1, 2, 3)]
    found = concluded(walks, base=1e-2)
    assert found.suggestion.low < found.suggestion.middle < found.suggestion.high
    assert found.factor == pytest.approx(found.suggestion.middle / 1e-2)
    assert set(found.curve.lines) == {"seed 1", "seed 2", "seed 3"}
    assert found.curve.marks["suggestion"] < found.curve.marks["lowest loss"]


def test_without_a_descent_in_most_walks_it_cannot_be_told():
    flat = read_off(steps(), [1.0] * len(steps()))
    found = concluded([flat, flat, read_off(*valley())], base=1e-2)
    assert found.suggestion is None
    assert found.factor is None
    assert "cannot tell" in found.says


@pytest.mark.parametrize("optimizer", [sgd, lambda parameters: torch.optim.AdamW(parameters, lr=1e-3)])
def test_it_stops_where_the_loss_runs_away_and_suggests_less(optimizer):
    found = range_test(setup(optimizer, model=lambda: nn.Linear(2, 3)), seeds=(1, 2), highest=1e6)
    assert all(walk.diverged and len(walk.rates) < len(steps(highest=1e6)) for walk in found.walks)
    assert found.suggestion.middle < found.walks[0].rates[-1] / 10


def test_one_seed_gives_one_walk():
    one, same, other = (range_test(setup(), seeds=(seed,)).walks[0].losses for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_groups_keep_their_proportions():
    seen = []

    def in_groups(parameters):
        first, *rest = parameters
        return torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": rest, "lr": 0.02}], lr=0.1)

    session = Session.begin(setup(in_groups), seed=1)
    watched = lambda model, optimizer: seen.append([group["lr"] for group in optimizer.param_groups])
    session.setup = replace(session.setup, before_step=(watched,))
    walked(session, highest=1e-3)
    assert all(math.isclose(one / two, 5.0) for one, two in seen)
    assert seen[0][0] == 1e-7


def test_several_batches_make_one_update():
    session = Session.begin(setup(), seed=1)
    calls = []
    session.setup = replace(
        session.setup, loss=lambda output, batch: calls.append(1) or nn.functional.cross_entropy(output, batch[1])
    )
    walk = walked(session, highest=1e-6, accumulate=3)
    assert len(calls) == 3 * len(walk.losses)


def test_a_regression_has_its_rate_too():
    def rows():
        draw = torch.Generator().manual_seed(3)
        inputs = torch.randn(240, 6, generator=draw)
        return inputs, inputs.sum(1, keepdim=True)

    found = range_test(setup(sgd, model=lambda: nn.Linear(6, 1), train=rows), seeds=(1, 2))
    assert 1e-4 < found.suggestion.middle < 1.0


def test_a_rate_of_nothing_is_told():
    with pytest.raises(NetdynoError, match="every learning rate is 0"):
        range_test(setup(lambda parameters: torch.optim.SGD(parameters, lr=0.0)), seeds=(1,))


def test_what_the_users_code_raises_is_told_in_three_lines():
    def breaking(output, target):
        raise RuntimeError("no such target")

    with pytest.raises(NetdynoError, match="no such target"):
        range_test(setup(loss=breaking), seeds=(1,))


def test_the_start_of_a_running_mean_is_not_pulled_to_nothing():
    assert smoothed([5.0, 5.0, 5.0])[0] == 5.0
