"""What every knob of the room promises."""

import ast
import copy
from dataclasses import fields

import msgspec
import pytest
import torch

from knobs.specimens import numbered, pictured, setup_for
from netdyno.knobs._base import broken, catalogue, read, turned, written
from netdyno.learning.run import train
from netdyno.records.trial import Change

STAGES = ("data", "arch", "optim", "reg", "deploy")
KNOBS = sorted(catalogue().items())


def every():
    return pytest.mark.parametrize(("name", "kind"), KNOBS, ids=[name for name, _ in KNOBS])


def start():
    return setup_for(pictured(), updates=24)


def test_none_is_broken():
    assert broken() == ()


def test_the_knobs_of_optimisation_are_there():
    assert set(catalogue()) >= {
        "batch-size", "clip", "early-stopping", "learning-rate", "momentum", "optimizer", "schedule", "warmup", "weight-decay",
    }  # fmt: skip


@every()
def test_it_says_stage_place_reason_and_question(name, kind):
    assert kind.stage in STAGES
    assert isinstance(kind.order, int)
    assert kind.effort_min > 0
    assert len(kind.reason.split()) >= 4
    assert kind.asks.endswith("?")


@every()
def test_its_page_says_what_it_helps_and_costs(name, kind):
    page = __import__(kind.__module__, fromlist=["_"]).__doc__
    assert "Helps:" in page
    assert "Costs:" in page


@every()
def test_it_is_written_as_data_and_read_back(name, kind):
    for one in (kind(), *kind().settings(start())):
        stored = msgspec.json.decode(msgspec.json.encode(written(one)), type=Change)
        assert stored.id == name
        assert read(stored) == one


@every()
def test_it_offers_settings_that_differ_or_says_why_not(name, kind):
    setup = start()
    offered = kind().settings(setup)
    assert len(set(offered)) == len(offered)
    good = [one for one in offered if one.refuses(setup) is None]
    assert good or (kind().refuses(setup) or offered[0].refuses(setup) if offered else kind().refuses(setup))


@every()
def test_a_refusal_is_a_sentence(name, kind):
    for setup in (start(), setup_for(numbered(), updates=6)):
        for one in (kind(), *kind().settings(setup)):
            no = one.refuses(setup)
            assert no is None or (len(no.split()) >= 3 and not no.endswith("."))


@every()
def test_to_ask_and_to_turn_leave_the_given_way_to_train_as_it_is(name, kind):
    setup = start()
    before = copy.copy([getattr(setup, field.name) for field in fields(setup)])
    drawn = torch.get_rng_state()
    for one in (kind(), *kind().settings(setup)):
        if one.refuses(setup) is None:
            one.turned(setup)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(old is getattr(setup, field.name) for old, field in zip(before, fields(setup), strict=True))


@every()
def test_turned_it_changes_the_way_to_train(name, kind):
    setup = start()
    for one in kind().settings(setup):
        if one.refuses(setup) is None:
            changed = one.turned(setup)
            assert any(getattr(changed, field.name) is not getattr(setup, field.name) for field in fields(setup))


@every()
def test_its_code_is_python(name, kind):
    for one in (kind(), *kind().settings(start())):
        ast.parse(one.code())


@every()
def test_a_run_under_its_first_setting_comes_to_its_end(name, kind):
    setup = start()
    one = next((one for one in kind().settings(setup) if one.refuses(setup) is None), None)
    if one is None:
        assert kind().refuses(setup) is not None
        return
    run = train(setup, seed=1, recipe=(written(one),), stage=kind.stage, knob=name, evaluations=2)
    assert run.failed is None
    assert run.updates > 0


def test_what_replaces_comes_before_what_edits():
    orders = {name: kind.order for name, kind in KNOBS}
    assert orders["optimizer"] < min(orders["learning-rate"], orders["weight-decay"], orders["momentum"])
    assert max(orders["batch-size"], orders["learning-rate"]) < orders["schedule"] < orders["warmup"]


def test_a_recipe_is_turned_in_one_order_however_it_is_written():
    recipe = [written(read(Change(id="learning-rate", settings={"factor": 3.0}))), Change(id="optimizer", settings={"name": "adam", "rate": 0.01})]  # fmt: skip
    for way in (recipe, recipe[::-1]):
        optimizer = turned(way, start()).optimizer(start().model())
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.03)
