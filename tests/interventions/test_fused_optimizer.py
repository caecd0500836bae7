"""Fused updates: close to the plain ones, state carried over both ways, flags and marks put back."""

import functools

import pytest
import torch

from interventions.specimens import WORDS, facts, stepped, timeline
from netdyno.interventions.fused_optimizer import MARKS, FusedOptimizer
from netdyno.targets.workload import Workload

OPTIMIZERS = {
    "SGD": functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=0.01),
    "plain SGD": functools.partial(torch.optim.SGD, lr=0.05),
    "Adam": functools.partial(torch.optim.Adam, lr=0.01, amsgrad=True),
    "AdamW": functools.partial(torch.optim.AdamW, lr=0.01),
    "Adagrad": functools.partial(torch.optim.Adagrad, lr=0.01),
}


def subject(optimizer):
    return Workload(name="own", model=WORDS.model, train=WORDS.train, optimizer=optimizer, batch_size=4).fresh(0)


def weights(one):
    return torch.cat([parameter.detach().flatten() for parameter in one.model.parameters()])


@pytest.mark.parametrize("before", [0, 2], ids=["fresh", "trained"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_steps_amid_plain_ones_lead_where_plain_ones_lead(name, before):
    one, other = subject(OPTIMIZERS[name]), subject(OPTIMIZERS[name])
    stepped(one, before)
    stepped(other, before)
    with FusedOptimizer().applied(one) as inside:
        assert inside.optimizer.param_groups[0]["fused"] is True
        stepped(inside, 3)
    stepped(other, 3)
    assert torch.allclose(weights(one), weights(other), rtol=1e-4, atol=1e-5)
    stepped(one, 2)
    stepped(other, 2)
    assert torch.allclose(weights(one), weights(other), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_flags_and_marks_are_put_back(name):
    one = subject(OPTIMIZERS[name])
    with FusedOptimizer().applied(one) as inside:
        stepped(inside, 1)
    assert one.optimizer.param_groups[0]["fused"] is None
    assert not set(MARKS) & set(vars(one.optimizer))


def test_step_counters_go_on_counting_in_their_own_tensors():
    one = subject(OPTIMIZERS["AdamW"])
    stepped(one, 2)
    counters = [state["step"] for state in one.optimizer.state.values()]
    with FusedOptimizer().applied(one) as inside:
        stepped(inside, 3)
    after = [state["step"] for state in one.optimizer.state.values()]
    assert all(now is then for now, then in zip(after, counters, strict=True))
    assert {float(counter) for counter in after} == {5.0}


def test_it_refuses_what_has_no_fused_form():
    refuses = FusedOptimizer().refuses
    assert refuses(subject(OPTIMIZERS["AdamW"])) is None
    assert "`RMSprop` has no fused form" in refuses(subject(torch.optim.RMSprop))
    assert "already" in refuses(subject(functools.partial(torch.optim.AdamW, fused=True)))
    assert "capturable" in refuses(subject(functools.partial(torch.optim.AdamW, capturable=True)))
    sparse = subject(OPTIMIZERS["plain SGD"])
    sparse.model.embedding.sparse = True
    assert "sparse gradients" in refuses(sparse)

    class Own(torch.optim.AdamW):
        """A subclass may override what the flag would bypass."""

    assert "`Own` has no fused form" in refuses(subject(Own))


def test_state_in_another_memory_order_is_refused_since_fused_kernels_would_mix_it_up():
    one = subject(OPTIMIZERS["AdamW"])
    stepped(one, 1)
    state = one.optimizer.state[one.model.head.weight]
    state["exp_avg"] = state["exp_avg"].t().contiguous().t()
    assert "another memory order" in FusedOptimizer().refuses(one)


def test_a_small_update_rules_it_out():
    assert FusedOptimizer().predicts(facts(timeline(forward=50, backward=49, optimizer=1))) is None
    prediction = FusedOptimizer().predicts(facts(timeline(forward=50, backward=30, optimizer=20)))
    assert (prediction.low, prediction.high) == (pytest.approx(0.06), pytest.approx(0.16))
