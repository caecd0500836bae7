"""One look at data, from the target to the document."""

from dataclasses import replace

import numpy as np
import pytest

from netdyno.audits import _base, _walk
from netdyno.audits._base import Audited, wrong
from netdyno.audits._specimens import specimen
from netdyno.audits._walk import looked_at, ordered
from netdyno.records.diagnosis import Outcome
from netdyno.store.documents import Documents


def few(monkeypatch, *checks):
    found = tuple(Audited(check.__name__.replace("_", "-"), check, (), "data", False) for check in checks)
    monkeypatch.setattr(_base, "audits", lambda: found)


def sound(view):
    return None


def sick(view):
    return wrong("3 things", fix="mend it", because={"things": 3.0})


def broken(view):
    raise ZeroDivisionError("no samples")


def interrupted(view):
    raise KeyboardInterrupt


def test_every_step_is_handed_on_before_the_next(monkeypatch):
    few(monkeypatch, sound, sick)
    kept, events = [], []
    audit = looked_at(specimen("table"), id="a", keep=kept.append, listener=events.append)
    assert [len(each.outcomes) for each in kept] == [0, 1, 2, 2]
    assert [each.finished for each in kept] == [False, False, False, True]
    assert kept[-1] == audit
    assert audit.pictures.keys() == {"splits", "neighbours"}
    assert [event.doing for event in events] == [
        "describing the data",
        "looking for sound",
        "looking for sick",
        "drawing the splits",
    ]


def test_nothing_is_lost_when_it_is_cut_short(monkeypatch, tmp_path):
    few(monkeypatch, sick, interrupted)
    shelf = Documents(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        looked_at(specimen("table"), id="a", keep=shelf.save)
    left = shelf.load(_walk.Audit)
    assert [each.state for each in left.outcomes] == ["found"]
    assert not left.finished


def test_an_audit_that_fails_ends_nothing_and_is_said(monkeypatch):
    few(monkeypatch, broken, sick)
    states = {each.rule: each for each in looked_at(specimen("table"), id="a").outcomes}
    assert states["broken"].state == "failed"
    assert "ZeroDivisionError" in states["broken"].reason
    assert states["sick"].state == "found"


def outcome(rule, *, explains=(), state="found", stage="data", confidence=0.9):
    finding = replace_stage(wrong(rule, fix="", because={}, confidence=confidence, explains=explains), stage)
    return Outcome(rule=rule, state=state, finding=finding)


def replace_stage(finding, stage):
    from msgspec.structs import replace as changed

    return changed(finding, stage=stage)


def test_the_root_cause_is_in_front_and_its_consequences_behind_it():
    told = ordered(
        (
            outcome("a-shift", confidence=0.99),
            outcome("leak", explains=("a-shift", "nothing")),
            Outcome(rule="x", state="clear"),
        )
    )
    assert [each.rule for each in told] == ["leak", "a-shift", "x"]
    assert told[0].finding.explains == ("a-shift",)


def test_a_cause_that_is_found_first_still_explains_what_is_found_later(monkeypatch):
    def cause(view):
        return wrong("1 cause", fix="x", because={"a": 1.0}, confidence=0.8, explains=("symptom",))

    def symptom(view):
        return wrong("1 symptom", fix="x", because={"a": 1.0}, confidence=0.99)

    few(monkeypatch, cause, sound, symptom)
    assert [each.rule for each in looked_at(specimen("table"), id="a").outcomes] == ["cause", "symptom", "sound"]


def test_a_suspicion_explains_nothing_and_notes_come_last():
    told = ordered(
        (outcome("note", stage="note"), outcome("guess", state="suspected", explains=("fact",)), outcome("fact"))
    )
    assert [each.rule for each in told] == ["fact", "guess", "note"]


def test_two_that_explain_each_other_are_both_told():
    told = ordered((outcome("a", explains=("b",)), outcome("b", explains=("a",))))
    assert [each.rule for each in told] == ["a", "b"]


def test_the_same_seed_gives_the_same_look():
    looks = [looked_at(specimen("table", seed=4), id="a", clock=lambda: 0.0) for _ in range(2)]
    assert looks[0].outcomes == looks[1].outcomes
    assert looks[0].pictures == looks[1].pictures


@pytest.mark.parametrize("modality", ["images", "table", "text", "series"])
def test_data_of_one_split_are_looked_at_all_the_same(modality):
    view = specimen(modality)
    audit = looked_at(replace(view, parts={"train": view.train}), id="a")
    assert [each.rule for each in audit.outcomes if each.state == "failed"] == []
    assert [each.rule for each in audit.outcomes if each.finding] == []


@pytest.mark.parametrize("modality", ["images", "table", "text", "series"])
def test_data_without_anything_to_learn_are_looked_at_all_the_same(modality):
    view = specimen(modality, task="none", train={"y": None}, val={"y": None})
    audit = looked_at(view, id="a")
    assert [(each.rule, each.reason) for each in audit.outcomes if each.state == "failed"] == []


def test_missing_cells_of_a_file_make_no_audit_fail():
    holes = np.random.default_rng(0).random((240, 7)) < 0.1
    view = specimen(
        "table", train=lambda part: replace(part, x=np.where(holes, np.nan, part.x)), notes={"source": "table"}
    )
    audit = looked_at(view, id="a")
    assert [(each.rule, each.reason) for each in audit.outcomes if each.state == "failed"] == []
