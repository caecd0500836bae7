"""How rules run, and in which order findings are told."""

from types import ModuleType

import pytest

from netdyno.plugins import Broken
from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding, Outcome, Saving
from netdyno.records.evidence import LoaderProfile, ScriptTrace, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules import _base
from netdyno.rules._base import diagnose, in_order, judged, needs_of, on_its_line, rule


def finding(saves=0.1, **fields):
    fields = {"layer": "data", "because": {"x": 1.0}, "fix": "", "says": ""} | fields
    return Finding(saves=Saving(low=0.0, high=saves), **fields)


def found(name, saves, *explains, state="found"):
    return Outcome(rule=name, state=state, finding=finding(saves, id=name, explains=explains))


def a_rule(check):
    module = ModuleType(check.__name__)
    setattr(module, check.__name__, rule(suggests=("threads",))(check))
    return _base._from(check.__name__, module)


def timeline(**phases):
    whole = Split()
    for split in phases.values():
        whole = whole + split
    return StepTimeline(steps=10, step=whole, phases=phases)


def names(outcomes):
    return [outcome.rule for outcome in outcomes]


def test_needs_are_the_signature():
    def both(timeline: StepTimeline, loader: LoaderProfile | None) -> Finding | None: ...

    assert needs_of(both) == (("timeline", StepTimeline, False), ("loader", LoaderProfile, True))


def test_optional_evidence_that_is_missing_arrives_as_none():
    def lone(timeline: StepTimeline, loader: LoaderProfile | None) -> Finding | None:
        return finding(says=f"{loader}")

    outcome = judged(a_rule(lone), {StepTimeline: timeline()})
    assert outcome.finding.says == "None"


def test_a_finding_carries_the_name_and_the_suggestions_of_its_rule():
    def sick(timeline: StepTimeline) -> Finding | None:
        return finding()

    outcome = judged(a_rule(sick), {StepTimeline: timeline()})
    assert (outcome.finding.id, outcome.finding.suggests) == ("sick", ("threads",))


def test_a_doubtful_finding_is_a_suspicion():
    def unsure(timeline: StepTimeline) -> Finding | None:
        return finding(confidence=0.5)

    assert judged(a_rule(unsure), {StepTimeline: timeline()}).state == "suspected"


def test_a_rule_that_raises_fails_with_its_error_and_does_not_end_the_run():
    def broken(timeline: StepTimeline) -> Finding | None:
        raise ZeroDivisionError("no steps")

    outcome = judged(a_rule(broken), {StepTimeline: timeline()})
    assert (outcome.state, outcome.reason) == ("failed", "ZeroDivisionError: no steps")


def test_a_rule_that_cannot_be_imported_fails_aloud():
    outcome = judged(Broken("lost", "ImportError: gone"), {})
    assert outcome.state == "failed"
    assert "gone" in outcome.reason


def test_a_file_without_its_rule_is_called_broken():
    assert isinstance(_base._from("empty", ModuleType("empty")), Broken)


def test_every_rule_has_an_outcome_even_without_evidence():
    outcomes = diagnose(())
    assert {outcome.rule for outcome in outcomes} == {each.id for each in _base.rules()}
    assert {outcome.state for outcome in outcomes} == {"skipped"}


def test_the_largest_recoverable_saving_comes_first():
    assert names(in_order([found("a", 0.1), found("b", 0.4), found("c", 0.2)])) == ["b", "c", "a"]


def test_silence_follows_findings_and_suspicions():
    silent = [Outcome(rule=state, state=state, reason="x") for state in ("clear", "skipped", "failed")]
    told = [found("guess", 0.9, state="suspected"), found("sure", 0.1)]
    assert names(in_order([*silent, *told])) == ["sure", "guess", "failed", "skipped", "clear"]


def test_what_saves_nothing_comes_after_what_may_save_something():
    told = [found("busy", 0.0), found("guess", 0.3, state="suspected"), found("sure", 0.1)]
    assert names(in_order(told)) == ["sure", "guess", "busy"]


def test_what_a_finding_explains_follows_it_at_once():
    outcomes = in_order([found("cause", 0.3, "effect", "absent"), found("other", 0.5), found("effect", 0.9)])
    assert names(outcomes) == ["other", "cause", "effect"]
    assert outcomes[1].finding.explains == ("effect",)


def test_a_chain_of_causes_is_told_from_its_root():
    outcomes = in_order([found("c", 0.9), found("b", 0.5, "c"), found("a", 0.1, "b")])
    assert names(outcomes) == ["a", "b", "c"]
    assert outcomes[0].finding.explains == ("b", "c")


def test_findings_that_explain_each_other_are_both_told():
    assert names(in_order([found("a", 0.1, "b"), found("b", 0.5, "a")])) == ["b", "a"]


def test_a_suspicion_does_not_fold_a_finding_away():
    outcomes = in_order([found("guess", 0.9, "fact", state="suspected"), found("fact", 0.2)])
    assert names(outcomes) == ["fact", "guess"]
    assert outcomes[1].finding.explains == ()


def test_an_unknown_evidence_order_does_not_matter_and_the_last_of_a_kind_wins():
    busy = timeline(data=Split(running=0.9), forward=Split(running=0.1))
    calm = timeline(data=Split(running=0.001), forward=Split(running=0.1))
    states = {outcome.rule: outcome.state for outcome in diagnose((busy, calm))}
    assert states["input-bound"] == "clear"


@pytest.mark.parametrize("kind", ["blocked", "running"])
def test_diagnosis_is_the_same_each_time(kind):
    evidence = (timeline(data=Split(**{kind: 0.5}), forward=Split(running=0.5)),)
    assert diagnose(evidence) == diagnose(evidence)


def ended(span_s, stopped="ended"):
    return ScriptTrace(
        attached="sitecustomize", processes=1, updates=10, counted_by="optimizer", cycle=1, events=(), optimizers=(),
        span_s=span_s, own_s=0.0, unattributed=0.0, stopped=stopped,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("share", "trace", "told"),
    [
        (0.1, ended(1.0), False),
        (0.5, ended(1.0), True),
        (0.1, ended(60.0), True),
        (0.1, ended(1.0, "seconds"), True),
        (0.1, None, True),
    ],
)
def test_of_a_script_seen_to_its_end_only_what_saves_a_second_or_a_good_part_is_told(share, trace, told):
    finding = Finding(says="", layer="data", saves=Saving(low=0.0, high=share), because={}, fix="")
    assert (_base.too_little(finding, trace) is None) is told


def test_what_is_wrong_is_told_however_short_the_script_is():
    finding = Finding(says="", layer="optimisation", saves=Saving(low=0.0, high=0.0), because={}, fix="")
    assert _base.too_little(finding, ended(0.1)) is None


def told(rule, stage, *, confidence=1.0, high=0.0, explains=()):
    finding = Finding(
        id=rule, says="", layer="optimisation", saves=Saving(low=0.0, high=high), because={}, fix="", stage=stage,
        confidence=confidence, explains=explains,
    )  # fmt: skip
    return Outcome(rule=rule, state="found" if confidence >= _base.SURE else "suspected", finding=finding)


def test_no_speed_finding_leads_while_something_is_wrong():
    ordered = _base.in_order([told("slow", "speed", high=0.9), told("loss", "loss")])
    assert [outcome.rule for outcome in ordered] == ["loss", "slow"]
    assert ordered[0].finding.explains == ()


def test_the_earliest_cause_leads_and_symptoms_are_folded_under_it():
    ordered = _base.in_order(
        [told("over-fit", "outcome"), told("dead", "dynamics"), told("rate", "settings"), told("nan", "data")]
    )
    assert [outcome.rule for outcome in ordered] == ["nan", "dead", "over-fit", "rate"]
    assert ordered[0].finding.explains == ("dead", "over-fit")


def test_a_suspicion_folds_nothing_and_comes_after_what_was_found():
    ordered = _base.in_order([told("nan", "data", confidence=0.5), told("dead", "dynamics")])
    assert [outcome.rule for outcome in ordered] == ["dead", "nan"]
    assert ordered[1].finding.explains == ()


def _built(**made: int) -> ScriptTrace:
    places = tuple(Place(file="net.py", line=line, module=name.replace("__", ".")) for name, line in made.items())
    return ScriptTrace(
        attached="sitecustomize", processes=1, updates=9, counted_by="optimizer", cycle=1, events=(), optimizers=(),
        span_s=1.0, own_s=0.0, unattributed=0.0,
        places={"modules": places},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("named", "line"), [("body__0", 8), ("body__0__weight", 8), ("body__3", 7), ("head", None), ("Net", 30)]
)
def test_a_part_of_a_model_stands_on_the_line_that_made_it_or_the_nearest_part_around_it(named, line):
    where = on_its_line(Place(module=named.replace("__", ".")), _built(body=7, body__0=8, Net=30))
    assert where.line == line
    assert where.module == named.replace("__", ".")


def test_a_place_with_a_line_of_its_own_keeps_it():
    own = Place(file="train.py", line=3, module="body")
    assert on_its_line(own, _built(body=7)) == own
    assert on_its_line(None, _built(body=7)) is None
    assert on_its_line(Place(module="body"), None) == Place(module="body")
