import pytest
import torch
from torch import nn

from netdyno.errors import NetdynoError
from netdyno.learning.multi_loss import Part, in_turns, together


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def losses_of(model):
    output = model(torch.linspace(-1, 1, 24).reshape(6, 4))
    return output[:, 0].square().mean(), 3 * output[:, 1].abs().mean()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def scaler():
    return torch.amp.GradScaler("cpu", init_scale=2.0**8)


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_gradients_of_the_scaled_sum_and_of_each_scaled_loss_are_equal():
    summed, apart = net(), net()
    together([sum(losses_of(summed))], [sgd(summed)], scaler=scaler())
    together(losses_of(apart), [sgd(apart)], scaler=scaler())
    assert torch.allclose(weights(summed), weights(apart), atol=1e-7)
    assert not torch.equal(weights(summed), weights(net()))


def test_a_scaler_changes_nothing_but_the_range():
    scaled, plain = net(), net()
    together(losses_of(scaled), [sgd(scaled)], scaler=scaler(), clip=0.5)
    together(losses_of(plain), [sgd(plain)], clip=0.5)
    assert torch.allclose(weights(scaled), weights(plain), atol=1e-7)


class Told:
    """Writes down what is asked of a scaler, and asks the true one."""

    def __init__(self):
        self.true, self.calls = scaler(), []

    def __getattr__(self, name):
        def call(*args):
            self.calls.append(name)
            return getattr(self.true, name)(*args)

        return call


def test_each_loss_is_scaled_each_optimizer_unscaled_and_stepped_once_and_the_scale_updated_once():
    model, told = net(), Told()
    optimizers = [sgd(model[0]), sgd(model[2])]
    together(losses_of(model), optimizers, scaler=told)
    assert told.calls == ["scale", "scale", "unscale_", "step", "unscale_", "step", "update"]


def test_two_sides_take_turns_and_the_scale_is_updated_at_the_end():
    maker, judge, told = net(1), nn.Linear(2, 1), Told()
    noise = torch.randn(6, 4)
    parts = [
        Part(loss=lambda: judge(maker(noise).detach()).mean() - judge(torch.ones(6, 2)).mean(), optimizer=sgd(judge)),
        Part(loss=lambda: -judge(maker(noise)).mean(), optimizer=sgd(maker), clip=1.0),
    ]
    before = weights(judge), weights(maker)
    losses = in_turns(parts, scaler=told)
    assert told.calls == ["scale", "unscale_", "step", "scale", "unscale_", "step", "update"]
    assert len(losses) == 2
    assert not torch.equal(before[0], weights(judge))
    assert not torch.equal(before[1], weights(maker))


def test_what_the_maker_leaves_in_the_judge_does_not_move_the_judge():
    maker, judge = net(1), nn.Linear(2, 1)
    noise = torch.randn(6, 4)

    def parts(judged):
        return [
            Part(loss=lambda: judged(torch.ones(1, 2)).sum(), optimizer=sgd(judged)),
            Part(loss=lambda: -judged(maker(noise)).mean(), optimizer=sgd(maker)),
        ]

    before = judge.weight.detach().clone()
    for _ in range(3):
        in_turns(parts(judge))
    assert torch.allclose(judge.weight, before - 0.3)


def test_an_overflow_skips_the_step_and_lowers_the_scale_once():
    model, true = net(), torch.amp.GradScaler("cpu", init_scale=2.0**8)
    before = weights(model)
    together([losses_of(model)[0] * float("inf")], [sgd(model)], scaler=true)
    assert torch.equal(before, weights(model))
    assert true.get_scale() == 2.0**7


def test_an_optimizer_without_a_gradient_is_no_error():
    used, unused = net(), net()
    together(losses_of(used), [sgd(used), sgd(unused)], scaler=scaler())
    assert torch.equal(weights(unused), weights(net()))


def test_an_optimizer_named_twice_is_refused():
    model = net()
    one = sgd(model)
    with pytest.raises(NetdynoError, match="once"):
        together(losses_of(model), [one, one])
