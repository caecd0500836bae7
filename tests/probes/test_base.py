"""How the probes are run over a workload."""

import contextlib
import types

import torch

from netdyno import plugins
from netdyno.probes import _base as room
from netdyno.probes._base import Pace, asked_for, gather, probe, probes
from netdyno.progress import Event
from netdyno.records.evidence import MachineState, StepTimeline
from netdyno.targets.workload import Workload


def workload():
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    return Workload(
        model=lambda: torch.nn.Linear(4, 2), train=lambda: (data, (data.sum(1) > 0).long()), batch_size=8, name="w"
    )


def only(monkeypatch, **found):
    monkeypatch.setattr(room, "probes", lambda: found)


def module(collect):
    made = types.ModuleType("made")
    made.collect = probe(collect)
    return made


def state(**changes):
    nothing = dict.fromkeys(MachineState.__struct_fields__, 0)
    return MachineState(**{**nothing, **changes})


def test_every_probe_of_the_room_is_found():
    assert set(probes()) == {
        "layer-table", "loader-profile", "machine-state", "memory-account", "op-table", "step-timeline",
        "sync-sites", "thread-use",
    }  # fmt: skip


def test_all_evidence_is_gathered_in_one_go():
    evidence, failures = gather(workload(), budget_s=0.5)
    assert failures == ()
    assert len({type(one) for one in evidence}) == len(probes())


def test_only_and_skip_choose_probes():
    evidence, _ = gather(workload(), budget_s=0.2, only=("machine-state", "step-timeline"), skip=("machine-state",))
    assert [type(one) for one in evidence] == [StepTimeline]


def test_a_probe_that_fails_becomes_a_sentence_and_ends_nothing(monkeypatch):
    def broken(subject):
        raise ValueError("no such thing")

    only(monkeypatch, broken=module(broken), whole=module(lambda subject: state(load=2.0)))
    evidence, failures = gather(workload(), budget_s=0.1)
    assert [one.load for one in evidence] == [2.0]
    assert [failure.says for failure in failures] == ["the probe `broken` could not finish: ValueError: no such thing"]
    assert failures[0].step == "gather"


def test_a_probe_that_cannot_be_imported_becomes_a_sentence(monkeypatch):
    only(monkeypatch, bad=plugins.Broken("bad", "SyntaxError: line 3"))
    _, failures = gather(workload(), budget_s=0.1)
    assert "line 3" in failures[0].says


def test_every_probe_gets_a_fresh_copy(monkeypatch):
    seen = []
    collect = lambda subject: seen.append(subject) or state()
    only(monkeypatch, one=module(collect), two=module(collect))
    gather(workload(), budget_s=0.1)
    assert seen[0].model is not seen[1].model
    assert torch.equal(seen[0].model.weight, seen[1].model.weight)


def test_changes_are_applied_to_each_copy_and_taken_back(monkeypatch):
    events = []

    @contextlib.contextmanager
    def applied(subject):
        events.append("on")
        yield subject
        events.append("off")

    only(monkeypatch, one=module(lambda subject: events.append("probe") or state()))
    gather(workload(), budget_s=0.1, applied=applied)
    assert events == ["on", "off", "on", "probe", "off"]


def test_a_slow_step_gets_few_steps_and_a_quick_one_many(monkeypatch):
    asked = []

    def collect(subject, *, steps):
        asked.append(steps)
        return state()

    only(monkeypatch, one=module(collect))
    for step_s in (100.0, 1e-6, 0.5):
        monkeypatch.setattr(room, "_pilot", lambda *_, step_s=step_s: step_s)
        gather(workload(), budget_s=12.0)
    assert asked == [room.FEWEST, room.MOST, 12]


def test_a_probe_is_handed_only_what_its_signature_names():
    pace = Pace(workload=workload(), ceilings=None, clock=lambda: None, steps=3, budget_s=1.0)
    assert asked_for(lambda subject, *, steps: None, pace) == {"steps": 3}
    assert asked_for(lambda subject: None, pace) == {}


def test_progress_is_told_between_probes(monkeypatch):
    only(monkeypatch, one=module(lambda subject: state()), two=module(lambda subject: state()))
    told = []
    gather(workload(), budget_s=0.1, listener=told.append)
    assert told == [Event("probe one", 0, 2), Event("probe two", 1, 2), Event("probes", 2, 2)]


def test_gathering_leaves_random_state_alone():
    before = torch.get_rng_state()
    gather(workload(), budget_s=0.1, only=("machine-state",))
    assert torch.equal(torch.get_rng_state(), before)
