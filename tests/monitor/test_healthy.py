"""Runs that are well: none of them may trip, and each trains as it would without a watch, to the last bit."""

import contextlib
import math
import random

import pytest
import torch
from tests.monitor.loops import data, net, plain_step

import netdyno
from netdyno.monitor.pulse import Pulse

F = torch.nn.functional


@pytest.fixture(autouse=True)
def no_doctor(monkeypatch):
    """The rules have tests of their own, and read the whole script each time."""
    monkeypatch.setattr(Pulse, "examine", lambda _pulse: None)


def loop(models, optimizers, step, updates, loader=None):
    loader, at = loader or data(), 0
    while at < updates:
        for batch in loader:
            step(*models, *optimizers, batch)
            at += 1
    return [model.state_dict() for model in models]


def momentum(updates=300):
    model = net(norm=True, dropout=0.1)
    return [model], [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)], plain_step, updates


def clipped(updates=200):
    def step(model, optimizer, batch):
        optimizer.zero_grad()
        (100 * F.cross_entropy(model(batch[0]), batch[1])).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    model = net()
    return [model], [torch.optim.Adam(model.parameters(), lr=1e-2)], step, updates


def transformer_with_warm_up(updates=150):
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 16),
        torch.nn.Unflatten(1, (2, 8)),
        torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 3),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: min(1.0, (at + 1) / 50))

    def step(model, optimizer, batch):
        plain_step(model, optimizer, batch)
        schedule.step()

    return [model], [optimizer], step, updates


def bfloat16(updates=150):
    def step(model, optimizer, batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()

    model = net()
    return [model], [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)], step, updates


def scaled(updates=150):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=20)

    def step(model, optimizer, batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    model = net()
    return [model], [torch.optim.SGD(model.parameters(), lr=0.1)], step, updates


def game(updates=200):
    """A generator and a discriminator."""

    def step(one, other, first, second, batch):
        fake = one(torch.randn(len(batch[0]), 6))
        real = other(batch[0][:, :3]), other(fake.detach())
        first.zero_grad()
        loss = F.softplus(-real[0]).mean() + F.softplus(real[1]).mean()
        loss.backward()
        first.step()
        second.zero_grad()
        F.softplus(-other(fake)).mean().backward()
        second.step()

    one, other = net(), torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.LeakyReLU(), torch.nn.Linear(16, 1))
    optimizers = [torch.optim.Adam(each.parameters(), lr=1e-2) for each in (other, one)]
    return [one, other], optimizers, step, updates


def closures(updates=20):
    def step(model, optimizer, batch):
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch[0]), batch[1])
            loss.backward()
            return loss

        optimizer.step(closure)

    model = net()
    return (
        [model],
        [torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=8, line_search_fn="strong_wolfe")],
        step,
        updates,
    )


def spikes_and_wrong_labels(updates=400):
    chance = random.Random(7)

    def step(model, optimizer, batch):
        x, y = batch
        if chance.random() < 0.05:
            x, y = x * 50, (y + 1) % 3
        if chance.random() < 0.4:
            y = torch.tensor([chance.randrange(3) for _ in y])
        plain_step(model, optimizer, (x, y))

    model = net()
    return [model], [torch.optim.Adam(model.parameters(), lr=1e-3)], step, updates


def returns(updates=400):
    """A policy's gradient with returns that nobody normalised, and a value that follows them."""
    chance = random.Random(3)

    def step(model, optimizer, batch):
        optimizer.zero_grad()
        policy = torch.distributions.Categorical(logits=model(batch[0]))
        action = policy.sample()
        gain = math.exp(chance.gauss(0, 1.0)) * (1.0 if step.at < 200 else 10.0) * (action == batch[1])
        step.at += 1
        (-(policy.log_prob(action) * gain).mean()).backward()
        optimizer.step()

    step.at = 0
    model = net()
    return [model], [torch.optim.Adam(model.parameters(), lr=1e-3)], step, updates


HEALTHY = (
    momentum,
    clipped,
    transformer_with_warm_up,
    bfloat16,
    scaled,
    game,
    closures,
    spikes_and_wrong_labels,
    returns,
)


@pytest.mark.parametrize("make", HEALTHY, ids=lambda make: make.__name__)
def test_a_healthy_run_trips_no_wire_and_is_the_same_to_the_last_bit(tmp_path, make):
    def weights(watched):
        torch.manual_seed(1)
        models, optimizers, step, updates = make()
        with watched(models, optimizers):
            return loop(models, optimizers, step, updates), torch.rand(3)

    plain, chance = weights(lambda *_: contextlib.nullcontext())
    seen = []

    def watched(models, optimizers):
        seen.append(netdyno.watch(models, optimizers, store=tmp_path, quiet=True, on_trip="stop"))
        return seen[0]

    again, same_chance = weights(watched)
    assert [alert for alert in seen[0].alerts.told.values() if alert.severity == "trip"] == []
    assert seen[0].observer.troubles == []
    assert torch.equal(chance, same_chance)
    for one, other in zip(plain, again, strict=True):
        assert all(torch.equal(value, other[name]) for name, value in one.items())
