"""What is asked of a model at the end, and that it is left as it was."""

import random

import pytest

torch = pytest.importorskip("torch")

from netdyno.aboard.vitals import consistency  # noqa: E402


def model():
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5))


def test_modes_buffers_and_generators_are_given_back():
    net = model()
    net[2].eval()
    before = {name: buffer.clone() for name, buffer in net.named_buffers()}
    drawn, python = torch.get_rng_state(), random.getstate()
    with consistency.as_it_was(net):
        net.train()
        net(torch.randn(8, 4))
        random.random()
    assert all(torch.equal(before[name], buffer) for name, buffer in net.named_buffers())
    assert net.training
    assert not net[2].training
    assert torch.equal(torch.get_rng_state(), drawn)
    assert random.getstate() == python


def failing(net):
    with consistency.as_it_was(net):
        net.eval()
        raise ZeroDivisionError


def test_they_are_given_back_when_a_question_fails():
    net = model()
    with pytest.raises(ZeroDivisionError):
        failing(net)
    assert net.training


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: torch.nn.functional.dropout(x, 0.5), "dropout"),
        (lambda x: torch.nn.functional.dropout(x, 0.5, training=False), None),
        (lambda x: x + torch.randn_like(x), "randn_like"),
        (lambda x: x + 1, None),
    ],
)
def test_chance_is_heard_by_its_name(call, name):
    chance = consistency.Chance()
    with chance:
        call(torch.ones(4))
    assert chance.name == name


def test_the_best_exchange_of_names_counts_each_name_once():
    assert consistency._best([[0, 9, 0], [8, 0, 0], [0, 0, 7]]) == 24
    assert consistency._best([[5, 0], [5, 0]]) == 5


def test_arguments_that_are_too_large_are_cut_or_not_kept():
    from netdyno.aboard.vitals._base import Call

    large = torch.zeros(64, consistency.BYTES // 64)
    call = Call(None, (large,), {}, None, False, None)
    args, _ = consistency._copy(call, 64, 32)
    assert len(args[0]) <= 32
    assert consistency._copy(call, 64, 64) is None
    assert consistency._copy(Call(None, (object(),), {}, None, False, None), 1, 1) is None


def test_answers_without_a_spread_are_not_judged():
    assert consistency._spread(torch.ones(4, 2)) == 0.0
    assert consistency._spread(torch.ones(1, 2)) == 0.0
