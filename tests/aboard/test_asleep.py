import contextlib
import copy

import pytest
import torch
from tests.monitor.loops import data, finite, net, plain_step, train

import netdyno
from netdyno.aboard import forwards
from netdyno.aboard.config import Config
from netdyno.aboard.observe import BURST, Observer
from netdyno.monitor import ride
from netdyno.monitor.pause import TripStop
from netdyno.monitor.pulse import Pulse
from netdyno.monitor.replay import replay
from netdyno.monitor.subject import Subject
from netdyno.store.journal import runs

# Past the first two hundred updates, which are all listened to; far from the ends of a stretch, so that whatever is planted meets
AT = 237


@pytest.fixture(autouse=True)
def no_doctor(monkeypatch):
    monkeypatch.setattr(Pulse, "examine", lambda _pulse: None)


def asleep():
    return ride._aboard[0].sleep.on


def clipped(model, optimizer, batch):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


class Planted:
    """A step with something wrong in update AT: `spoil(model, loss)` before the backward pass, `after(model)` behind it."""

    def __init__(self, *, spoil=None, after=None, clips=False):
        self.update, self.slept = 0, []
        self.spoil, self.after, self.clips = spoil, after, clips

    def __call__(self, model, optimizer, batch):
        self.slept.append(asleep())
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
        if self.update == AT and self.spoil:
            loss = self.spoil(loss)
        loss.backward()
        if self.update == AT and self.after:
            self.after(model)
        self.update += 1
        if self.clips:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()


def spoiled(parameter):
    def after(model):
        list(model.parameters())[parameter].grad.view(-1)[0] = float("nan")

    return after


def stopped(store, step, *, model=None, **settings):
    model = model or net()
    with pytest.raises(TripStop) as raised:
        train(store, model=model, step=step, on_trip="stop", updates=AT + 40, **settings)
    assert step.slept[AT], "nobody slept, and nothing was shown"
    assert step.update == AT + 1, "it was not stopped in the update that was bad"
    assert finite(model.state_dict())
    return str(raised.value)


@pytest.mark.parametrize("step", [plain_step, clipped])
def test_most_updates_are_slept_through_and_each_loss_is_in_the_journal(tmp_path, step):
    slept = []

    def before(_update, _model, _optimizer, batch):
        slept.append(asleep())
        return batch

    ran = train(tmp_path, updates=400, before=before, step=step)
    assert sum(slept) > 120
    (run,) = runs(tmp_path)
    assert run.series("loss").values.tolist() == ran.losses
    assert run.series("loss").updates.tolist() == list(range(1, 401))
    assert ran.watch.updates == 400
    assert ran.watch.observer.losses == ran.losses
    (entry,) = ran.watch.observer.facts.optimizers
    assert entry.steps == 400
    assert ran.trips == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_wakes_before_the_weights_are_spoiled(tmp_path, value):
    assert "the loss is" in stopped(tmp_path, Planted(spoil=lambda loss: loss * value))


@pytest.mark.parametrize("parameter", range(4))
def test_any_gradient_of_a_small_model_that_is_no_number_wakes_before_the_step_and_is_named(tmp_path, parameter):
    says = stopped(tmp_path, Planted(after=spoiled(parameter)))
    assert f"the gradient of `{('0.weight', '0.bias', '3.weight', '3.bias')[parameter]}` is not finite" in says


@pytest.mark.parametrize("parameter", [0, 3])
def test_clipping_tells_of_a_bad_gradient_before_the_step(tmp_path, parameter):
    assert "a gradient is not finite" in stopped(tmp_path, Planted(after=spoiled(parameter), clips=True))


class Bad(torch.autograd.Function):
    """Gradients that arrive here leave as no numbers."""

    on = False

    @staticmethod
    def forward(_, x):
        return x.clone()

    @staticmethod
    def backward(_, gradient):
        return gradient * float("nan") if Bad.on else gradient


class Large(torch.nn.Module):
    """More tensors than are read in each update."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(6))
        self.last = torch.nn.ModuleList([*(torch.nn.Linear(6, 6) for _ in range(3)), torch.nn.Linear(6, 3)])

    def forward(self, x):
        for layer in self.first:
            x = torch.relu(layer(x)) + x
        x = Bad.apply(x)
        for layer in self.last[:-1]:
            x = torch.relu(layer(x)) + x
        return self.last[-1](x)


def test_of_a_large_model_what_spreads_through_the_backward_pass_wakes_before_the_step(tmp_path):
    def spoil(loss):
        Bad.on = True
        return loss

    try:
        says = stopped(
            tmp_path, Planted(spoil=spoil), model=Large(), make=lambda m: torch.optim.SGD(m.parameters(), lr=0.01)
        )
    finally:
        Bad.on = False
    assert "`first.5.bias` is not finite, the first of 12" in says


def test_an_explosion_wakes_and_is_told(tmp_path):
    def before(update, _model, optimizer, batch):
        optimizer.param_groups[0]["lr"] = 0.05 if update < AT else 50.0
        return batch

    model = net()
    with pytest.raises(TripStop, match="usual was"):
        train(tmp_path, model=model, before=before, updates=AT + 80, on_trip="stop")
    assert finite(model.state_dict())


def test_a_snapshot_out_of_a_sleep_replays_to_the_last_bit(tmp_path):
    ran = train(tmp_path, model=net(dropout=0.3), step=(step := Planted(after=spoiled(0))), updates=AT + 1)
    assert step.slept[AT]
    (path,) = {alert.snapshot for alert in ran.trips.values() if alert.snapshot}
    model = net(dropout=0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def again(batch):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        spoiled(0)(model)
        optimizer.step()
        return loss.item()

    found = replay(path, Subject.of(model, optimizer), again)
    assert (found.reproduced, found.exact) == (True, True)


@pytest.mark.parametrize("everything", [False, True])
def test_training_is_the_same_to_the_last_bit(tmp_path, everything):
    def trained(watch):
        torch.manual_seed(2)
        model = net(norm=True, dropout=0.2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses, item = [], torch.Tensor.item
        with watch:
            while len(losses) < 1200:
                losses += [clipped(model, optimizer, batch) for batch in loader]
            faded = torch.Tensor.item is item
        return losses, copy.deepcopy(model.state_dict()), faded

    loader = data()
    losses, weights, _ = trained(contextlib.nullcontext())
    seen = netdyno.watch(store=tmp_path, quiet=True, everything=everything)
    again, watched, faded = trained(seen)
    assert again == losses
    assert all(torch.equal(one, watched[name]) for name, one in weights.items())
    assert faded, "what reads values passed by here to the end"
    assert seen.observer.troubles == []


def test_what_lies_within_a_model_passes_nothing_of_ours_once_it_is_known(tmp_path):
    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = net(norm=True)

        def forward(self, rows):
            return self.inside(rows)

    class Wrapped(Outer):
        """Inherits the call."""

    call, models = torch.nn.Module.__call__, (Outer(), Wrapped())
    optimizers = [torch.optim.SGD(model.parameters(), lr=1e-3) for model in models]
    loader = data()
    with netdyno.watch(store=tmp_path, quiet=True) as watch:
        while not watch.observer.narrowed:
            for batch in loader:
                for model, optimizer in zip(models, optimizers, strict=True):
                    clipped(model, optimizer, batch)
        assert watch.observer.narrowed == (Outer,)
        assert torch.nn.Module.__call__ is call
        assert Outer.__call__ is Wrapped.__call__ is not call
        forwards.widen(watch.observer.replacements, watch.observer)
        assert torch.nn.Module.__call__ is not call
        assert "__call__" not in vars(Outer)
        forwards.narrow(watch.observer.replacements, watch.observer)
        assert watch.observer.narrowed == (Outer,)
    assert torch.nn.Module.__call__ is Outer.__call__ is call
    assert "__call__" not in vars(Outer)
    assert watch.observer.troubles == []


def test_an_evaluation_is_seen_in_a_sleep_and_training_goes_on_sleeping(tmp_path):
    seen = []

    def before(update, model, _optimizer, batch):
        if update == AT:
            observer = ride._aboard[0]
            heard = observer.vitals.evaluated
            observer.vitals.evaluated = lambda call: (seen.append(call.grad), heard(call))
            assert asleep()
            model.eval()
            with torch.no_grad():
                model(batch[0])
            model.train()
            assert asleep()
        return batch

    ran = train(tmp_path, before=before, updates=AT + 20)
    assert seen == [False]
    assert len(ran.watch.observer.losses) == AT + 20


def test_another_optimizer_wakes(tmp_path):
    other = torch.nn.Linear(6, 1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    was = []

    def before(update, _model, _optimizer, batch):
        if update == AT:
            was.append(asleep())
            other(batch[0]).mean().backward()
            second.step()
            was.append(asleep())
        return batch

    ran = train(tmp_path, before=before, updates=AT + 20)
    assert was == [True, False]
    assert [entry.steps for entry in ran.watch.observer.facts.optimizers] == [AT + 20, 1]
    assert ran.watch.updates == AT + 21


def test_losses_of_accumulated_batches_add_up(tmp_path):
    told = []

    def step(model, optimizer, batch):
        loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1]) / 2
        loss.backward()
        told.append(loss.item())
        if len(told) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()

    ran = train(tmp_path, step=step, updates=600)
    sums = [first + second for first, second in zip(told[::2], told[1::2], strict=True)]
    assert ran.watch.observer.losses == sums


def test_a_backward_pass_that_starts_from_no_loss_is_none(tmp_path):
    def step(model, optimizer, batch):
        optimizer.zero_grad()
        output = model(batch[0])
        loss = torch.nn.functional.cross_entropy(output, batch[1])
        if step.update == AT:
            output.backward(torch.autograd.grad(loss, output)[0])
        else:
            loss.backward()
        step.update += 1
        optimizer.step()
        return loss.item()

    step.update = 0
    ran = train(tmp_path, step=step, updates=AT + 20)
    assert ran.watch.updates == AT + 20
    assert ran.watch.observer.losses == [None if at == AT else loss for at, loss in enumerate(ran.losses)]


def test_a_step_that_a_closure_makes_is_never_slept_through(tmp_path):
    slept = []

    def step(model, optimizer, batch):
        slept.append(asleep())

        def closure():
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
            loss.backward()
            return loss

        return optimizer.step(closure).item()

    ran = train(tmp_path, step=step, updates=AT + 20)
    assert not any(slept)
    assert ran.watch.updates == AT + 20


# what bursts may cost


def long(share=0.0015):

    observer = Observer(Config(folder="", hz=0))
    observer.bursts_share = share
    return observer


@pytest.mark.parametrize(("pace", "fee"), [(5e6, 4e5), (3e5, 6e4), (5e6, 2e6)])
def test_bursts_are_so_far_apart_that_they_cost_their_share(pace, fee):
    observer = long()
    observer.paces.append(pace)
    observer.burst_paces.append(pace + fee)
    rest = observer.apart(10**9)
    assert BURST * fee / (rest * pace) == pytest.approx(0.0015, rel=0.01)


def test_a_young_run_is_watched_more_often():
    observer = long()
    observer.paces.append(5e6)
    observer.burst_paces.append(7e6)
    assert [observer.apart(at) for at in (100, 1000, 4000)] == [450, 1000, 4000]


def test_what_seems_to_cost_nothing_is_held_to_its_distance_and_slow_updates_to_seconds():
    observer = long()
    observer.paces.append(5e6)
    observer.burst_paces.append(4e6)
    assert observer.apart(10**9) == 950
    observer.paces[0] = observer.burst_paces[0] = 1e8
    assert observer.apart(10**9) == 100


def test_in_a_long_watch_looks_and_listening_are_left_to_bursts(tmp_path):
    seen = []

    def before(_update, _model, _optimizer, batch):
        observer = ride._aboard[0]
        seen.append((observer.off, observer.vitals.block, observer.vitals.looking))
        return batch

    train(tmp_path, before=before, updates=1200)
    late = seen[260:]
    assert {block for resting, block, _ in late if resting} == {False}
    assert not any(looking for resting, _, looking in late if resting)
    assert any(not resting for resting, _, _ in late), "no burst came"
