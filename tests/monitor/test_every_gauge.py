"""What all gauges promise, whoever writes the next one."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F

from monitor.gauges.rides import aboard, data, network, one, train
from netdyno import plugins
from netdyno.monitor.gauges import _base
from netdyno.monitor.subject import Subject

GAUGES = dict(plugins.modules("monitor.gauges"))
HEADINGS = ("Shows:", "Costs:", "Not seen:")


@pytest.mark.parametrize("name", GAUGES)
def test_its_file_declares_it(name):
    module = GAUGES[name]
    assert not isinstance(module, plugins.Broken), module
    assert issubclass(module.GAUGE, _base.Gauge)
    assert name.replace("-", "") == module.GAUGE.__name__.lower()


@pytest.mark.parametrize("name", GAUGES)
def test_it_explains_itself_under_the_three_headings(name):
    places = [GAUGES[name].__doc__.find(f"\n{heading}") for heading in HEADINGS]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("name", GAUGES)
def test_each_of_its_series_has_words(name):
    series = GAUGES[name].GAUGE.series
    assert series
    assert all(isinstance(told, _base.Told) and told.says for told in series.values())


def plain(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    x, y = data()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16, shuffle=True)
    for _ in range(3):
        for a, b in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(a), b).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        schedule.step()


def several_optimizers(model):
    first, *_, last = model.children()
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (first, last)]
    x, y = data()
    for at in range(10):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizers[at % 2].step()


def closures(model):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    x, y = data()

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(6):
        optimizer.step(closure)


def accumulation(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = data()
    for at in range(16):
        (F.cross_entropy(model(x), y) / 4).backward()
        if at % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def scaled(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    x, y = data()
    for at in range(10):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss * (math.inf if at == 4 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()


def half(model):
    model.bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = data()
    for _ in range(6):
        optimizer.zero_grad()
        F.cross_entropy(model(x.bfloat16()), y).backward()
        optimizer.step()


LOOPS = (plain, several_optimizers, closures, accumulation, scaled, half)


def end_of(loop, name=None, norm=True):
    """Weights after a training, with a gauge aboard or without, and what it told."""
    model = network(norm=norm)
    torch.manual_seed(7)
    if name is None:
        loop(model)
        return copy.deepcopy(model.state_dict()), None
    with aboard(one(name)) as told:
        loop(model)
    return copy.deepcopy(model.state_dict()), told


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
@pytest.mark.parametrize("name", GAUGES)
def test_it_leaves_training_as_it_is_and_tells_numbers_with_names(name, loop):
    without, _ = end_of(loop)
    weights, told = end_of(loop, name)
    assert all(torch.equal(weight, weights[key]) for key, weight in without.items())
    series = GAUGES[name].GAUGE.series
    for point, values in told.points.items():
        assert all(isinstance(value, int | float) for value in values)
        plain_name = point.partition("@")[0]
        assert any(
            plain_name == pattern or (pattern.endswith("*") and plain_name.startswith(pattern[:-1]))
            for pattern in series
        ), point


@pytest.mark.parametrize("name", GAUGES)
def test_it_survives_a_model_without_what_it_looks_for(name):
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with aboard(one(name)) as told:
        for _ in range(10):
            optimizer.zero_grad()
            (weight * 2).sum().backward()
            optimizer.step()
    assert all(math.isfinite(value) for values in told.points.values() for value in values)


@pytest.mark.parametrize("name", GAUGES)
def test_it_survives_frozen_weights_and_unused_ones(name):
    model = network(norm=True)
    model[0].requires_grad_(False)
    model.unused = torch.nn.Linear(2, 2)
    with aboard(one(name)):
        train(torch.nn.Sequential(*model[:4]), torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize("name", GAUGES)
def test_it_survives_losses_that_are_nan(name):
    model = network(norm=True)
    with aboard(one(name)):
        train(model, torch.optim.SGD(model.parameters(), lr=math.inf), updates=6)


@pytest.mark.parametrize("name", GAUGES)
def test_a_compiled_module_compiles_once_all_the_same(name):
    model = network(norm=True)
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with aboard(one(name), Subject({"model": compiled}, (optimizer,))) as told:
        train(compiled, optimizer)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert not any("_orig_mod" in point for point in told.points)


def test_units_are_found_by_the_names_of_series():
    assert _base.unit("memory/rss").unit == "bytes"
    assert _base.unit("gradient_norm/layers.0@1").unit == ""
    assert _base.unit("nothing of the sort") is None
