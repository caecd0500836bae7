"""Updates list by list: the same bits for the usual optimizers, refused where it is so already."""

import functools

import pytest
import torch

from interventions.specimens import WORDS, facts, stepped, timeline
from netdyno.interventions.foreach_optimizer import ForeachOptimizer
from netdyno.targets.workload import Workload

OPTIMIZERS = {
    "SGD": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": functools.partial(torch.optim.Adam, lr=0.01),
    "AdamW": functools.partial(torch.optim.AdamW, lr=0.01),
    "Adagrad": functools.partial(torch.optim.Adagrad, lr=0.01),
}


def subject(optimizer):
    return Workload(name="own", model=WORDS.model, train=WORDS.train, optimizer=optimizer, batch_size=4).fresh(0)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_update_is_the_same_to_the_bit(name):
    one, other = subject(OPTIMIZERS[name]), subject(OPTIMIZERS[name])
    with ForeachOptimizer().applied(one) as inside:
        assert inside.optimizer.param_groups[0]["foreach"] is True
        assert stepped(inside, 3) == stepped(other, 3)
    assert one.optimizer.param_groups[0]["foreach"] is None
    assert stepped(one, 2) == stepped(other, 2)


def test_it_refuses_what_is_or_cannot_be_list_by_list():
    refuses = ForeachOptimizer().refuses
    assert refuses(subject(OPTIMIZERS["AdamW"])) is None
    assert "already" in refuses(subject(functools.partial(torch.optim.AdamW, foreach=True)))
    assert "fused" in refuses(subject(functools.partial(torch.optim.AdamW, fused=True)))
    assert "no `foreach`" in refuses(subject(torch.optim.SparseAdam))
    assert "tensor" in refuses(subject(lambda parameters: torch.optim.SGD(parameters, lr=torch.tensor(0.1))))


def test_a_small_update_rules_it_out():
    assert ForeachOptimizer().predicts(facts(timeline(forward=50, backward=49, optimizer=1))) is None
    assert ForeachOptimizer().predicts(facts(timeline(forward=50, backward=30, optimizer=20))).high == pytest.approx(
        0.08
    )
