import pytest
import torch
from torch import nn

from knobs.specimens import pictured, setup_for, small_net
from netdyno.knobs._optimizers import KINDS, made, scaling_of, shares_of_state, unavailable
from netdyno.knobs.learning_rate import LearningRate
from netdyno.knobs.momentum import Momentum
from netdyno.knobs.optimizer import Optimizer
from netdyno.knobs.weight_decay import WeightDecay


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def in_groups(model):
    layers = [layer for layer in model if list(layer.parameters())]
    return torch.optim.SGD(
        [{"params": layer.parameters(), "lr": 0.1 / (at + 1)} for at, layer in enumerate(layers)],
        lr=0.1,
        momentum=0.9,
    )


def setup(optimizer=adamw, **changes):
    return setup_for(pictured(), optimizer=optimizer, **changes)


def turned(knob, optimizer=adamw):
    model = small_net()
    return model, knob.turned(setup(optimizer)).optimizer(model)


def after_code(knob, optimizer=adamw):
    model = small_net()
    names = {"torch": torch, "model": model, "optimizer": optimizer(model)}
    exec(knob.code(), names)
    return model, names["optimizer"]


def as_numbers(model, optimizer):
    names = {id(weight): name for name, weight in model.named_parameters()}
    kept = ("lr", "weight_decay", "momentum", "betas", "nesterov")
    return [
        ([names[id(weight)] for weight in group["params"]], {key: group[key] for key in kept if key in group})
        for group in optimizer.param_groups
    ]


@pytest.mark.parametrize(
    ("knob", "optimizer"),
    [
        (LearningRate(0.3), in_groups), (WeightDecay(0.05), adamw), (WeightDecay(5e-4), in_groups), (Momentum(0.8), adamw),
        (Momentum(0.8), in_groups), (Optimizer("nesterov", 0.3), adamw), (Optimizer("adafactor", 0.01), adamw),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)),
)  # fmt: skip
def test_what_a_person_would_write_is_what_the_knob_does(knob, optimizer):
    assert as_numbers(*turned(knob, optimizer)) == as_numbers(*after_code(knob, optimizer))


def test_groups_keep_their_proportions():
    _, optimizer = turned(LearningRate(10.0), in_groups)
    assert [group["lr"] for group in optimizer.param_groups][:3] == pytest.approx([1.0, 0.5, 1 / 3])


def test_no_bias_and_no_scale_of_a_norm_is_decayed_and_no_weight_is_lost():
    model, optimizer = turned(WeightDecay(0.05))
    decayed = {id(weight) for group in optimizer.param_groups if group["weight_decay"] for weight in group["params"]}
    for name, module in model.named_modules():
        for own, weight in module.named_parameters(recurse=False):
            assert (id(weight) in decayed) == (own == "weight" and not isinstance(module, nn.BatchNorm2d)), name
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))


def test_decays_offered_fit_the_optimizer():
    assert WeightDecay().settings(setup(in_groups))[0].value < 1e-3
    assert WeightDecay().settings(setup())[0].value >= 1e-2


def test_what_an_optimizer_does_not_have_is_refused():
    def searching(model):
        return torch.optim.LBFGS(model.parameters())

    assert "no weight decay" in WeightDecay(0.1).refuses(setup(searching))
    assert "no momentum" in Momentum(0.9).refuses(setup(searching))
    assert "several groups" in Optimizer("adamw", 1e-3).refuses(setup(in_groups))


def test_an_optimizer_that_is_not_there_says_what_is_missing():
    assert "none of" in unavailable("sofia")
    assert Optimizer("sofia", 0.1).refuses(setup())
    no = unavailable("adamw-8bit")
    assert "bitsandbytes" in no or "CUDA" in no


def test_every_optimizer_is_offered_at_the_same_number_of_rates():
    offered = Optimizer().settings(setup())
    counts = {one.name: sum(each.name == one.name for each in offered) for one in offered}
    assert set(counts.values()) == {3}


# Multiples of the bytes of the parameters, measured (ledger ): LAMB keeps as much as Adam.
@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("adam", 1.99, 2.01), ("adamw", 1.99, 2.01), ("sgd", 0.99, 1.01), ("nesterov", 0.99, 1.01), ("lamb", 1.99, 2.01),
        ("lion", 0.99, 1.01), ("adafactor", 0.0, 0.005),
    ],
)  # fmt: skip
def test_state_takes_the_bytes_that_are_told(name, least, most):
    if (no := unavailable(name)) is not None:
        pytest.skip(no)
    model = nn.Linear(1024, 1024, bias=False)
    optimizer = made(name, model.parameters(), KINDS[name].rate)
    model(torch.ones(2, 1024)).sum().backward()
    optimizer.step()
    assert least <= shares_of_state(optimizer) <= most


@pytest.mark.parametrize("name", KINDS)
def test_each_optimizer_descends(name):
    if (no := unavailable(name)) is not None:
        pytest.skip(no)
    torch.manual_seed(0)
    model, inputs = nn.Linear(8, 1), torch.randn(64, 8)
    optimizer = made(name, model.parameters(), KINDS[name].rate)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_only_plain_gradients_scale_linearly():
    assert scaling_of(in_groups(small_net())) == "linear"
    assert scaling_of(adamw(small_net())) == "sqrt"
    model = small_net()
    for name, kind in KINDS.items():
        if unavailable(name) is None:
            assert scaling_of(made(name, model.parameters(), 0.1)) == kind.scaling
