"""Loops as people write them: each trains the same to the last bit, and each step is counted."""

import pytest
import torch
from torch import nn

import netdyno
from netdyno.aboard.observe import BACKWARDS
from netdyno.store.journal import runs

UPDATES = 200
cross_entropy = nn.functional.cross_entropy


def rows():
    torch.manual_seed(5)
    x = torch.randn(64, 6)
    return x, x[:, :3].argmax(1)


def network(*, ends=3):
    return nn.Sequential(nn.Linear(6, 12), nn.LayerNorm(12), nn.ReLU(), nn.Dropout(0.1), nn.Linear(12, ends))


def plain(begin):
    x, y = rows()
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, UPDATES)
    begin(model, optimizer, scheduler=schedule)
    for _ in range(UPDATES):
        pick = torch.randint(len(x), (16,))
        optimizer.zero_grad()
        cross_entropy(model(x[pick]), y[pick]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return [model]


def accumulated(begin):
    x, y = rows()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    begin(model, optimizer)
    for _ in range(UPDATES):
        for pick in torch.randperm(len(x)).split(16):
            (cross_entropy(model(x[pick]), y[pick]) / 4).backward()
        optimizer.step()
        optimizer.zero_grad()
    return [model]


def two_networks(begin):
    x, _ = rows()
    maker, judge = network(ends=6), network(ends=1)
    makes = torch.optim.Adam(maker.parameters(), lr=1e-3)
    judges = torch.optim.Adam(judge.parameters(), lr=1e-3)
    loss = nn.BCEWithLogitsLoss()
    begin({"maker": maker, "judge": judge}, [makes, judges])
    ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
    for _ in range(UPDATES // 2):
        judge.zero_grad()
        fake = maker(torch.randn(16, 6))
        loss(judge(x[torch.randint(len(x), (16,))]), ones).backward()
        loss(judge(fake.detach()), zeros).backward()
        judges.step()
        maker.zero_grad()
        loss(judge(fake), ones).backward()
        makes.step()
    return [maker, judge]


def closure(begin):
    x, y = rows()
    model = nn.Linear(6, 3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.05, max_iter=3, history_size=4)
    begin(model, optimizer)

    def again():
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(UPDATES):
        optimizer.step(again)
    return [model]


def scaled(begin):
    x, y = rows()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=40)
    begin(model, optimizer, scaler=scaler)
    for at in range(UPDATES + 1):
        pick = torch.randint(len(x), (16,))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = cross_entropy(model(x[pick]), y[pick])
        scaler.scale(loss).backward()
        if at == 50:  # one step that the scaler leaves out
            model[0].weight.grad[0, 0] = torch.inf
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() != 2.0**10
    return [model]


def by_hand(begin):
    x, y = rows()
    model = network()
    begin(model)
    for _ in range(UPDATES):
        pick = torch.randint(len(x), (16,))
        model.zero_grad()
        cross_entropy(model(x[pick]), y[pick]).backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight.sub_(weight.grad, alpha=0.1)
    return [model]


# Where there is no optimizer, that there is none shows after some passes: until then they may be one update's.
UNCOUNTED = {by_hand: BACKWARDS}
LOOPS = (plain, accumulated, two_networks, closure, scaled, by_hand)


def trained(loop, store=None, **wishes):
    """The weights that a loop ends with, and the watch over it."""
    torch.manual_seed(0)
    seen = []

    def begin(*parts, **named):
        if store is not None:
            seen.append(netdyno.watch(*parts, **named, store=store, quiet=True, **wishes).start())

    try:
        models = loop(begin)
    finally:
        for each in seen:
            each.stop()
    return [weight for model in models for weight in model.state_dict().values()], torch.get_rng_state(), *seen


@pytest.mark.parametrize("everything", [False, True], ids=["default", "everything"])
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_it_trains_the_same_to_the_last_bit_and_each_step_counts(tmp_path, loop, everything):
    weights, state = trained(loop)
    watched, after, seen = trained(loop, tmp_path, everything=everything)
    assert all(torch.equal(one, other) for one, other in zip(weights, watched, strict=True))
    assert torch.equal(state, after)
    assert seen.observer.troubles == []
    (run,) = runs(tmp_path)
    assert run.end["updates"] == UPDATES - UNCOUNTED.get(loop, 0)
    losses = run.series("loss")
    assert losses.updates.tolist() == list(range(1, run.end["updates"] + 1))
    assert losses.values.max() < 8


def compiled(begin, backend, *, before):
    """A compiled model, watched from before it was compiled, or from its tenth update on; and how often it was compiled."""
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    x, y = rows()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if before:
        begin(model, optimizer)
    quick = torch.compile(model, backend=counter)
    for at in range(UPDATES):
        if at == 10 and not before:
            begin(model, optimizer)
        pick = torch.randint(len(x), (16,))
        optimizer.zero_grad()
        cross_entropy(quick(x[pick]), y[pick]).backward()
        optimizer.step()
    return model, (counter.frame_count, counter.op_count)


@pytest.mark.parametrize("before", [True, False], ids=["watched-first", "watched-later"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_is_compiled_as_often_as_without_us(tmp_path, backend, before):
    frames = []

    def loop(begin):
        model, counted = compiled(begin, backend, before=before)
        frames.append(counted)
        return [model]

    weights, _ = trained(loop)
    watched, _, seen = trained(loop, tmp_path, everything=True)
    assert all(torch.equal(one, other) for one, other in zip(weights, watched, strict=True))
    assert frames[0] == frames[1]
    assert seen.updates == (UPDATES if before else UPDATES - 10)
    assert seen.observer.troubles == []
