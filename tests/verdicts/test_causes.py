from netdyno.records.diagnosis import Experiment, Finding, Outcome, Place, Saving
from netdyno.records.measured import Interval
from netdyno.records.trial import Change
from netdyno.rules import _base
from netdyno.verdicts import causes


def told(rule, *, stage="settings", confidence=1.0, line=None, layer="optimisation"):
    finding = Finding(
        id=rule, says="", layer=layer, saves=Saving(low=0.0, high=0.0), because={}, fix="", stage=stage,
        confidence=confidence, where=Place(file="train.py", line=line) if line else None,
    )  # fmt: skip
    return Outcome(rule=rule, state="found" if confidence >= _base.SURE else "suspected", finding=finding)


def tried(rule, verdict):
    return Experiment(
        finding=rule, change=Change(id="clip-gradients"), asks="?", quantity="accuracy", seeds=(0, 1),
        effect=Interval(middle=0.1, low=0.05, high=0.2, level=0.95), verdict=verdict, says="",
    )  # fmt: skip


def after(outcome, verdict):
    return causes.with_experiments([outcome], [tried(outcome.rule, verdict)], _base.in_order)[0]


def test_a_proven_suspicion_is_found():
    assert after(told("rate", confidence=0.5), "proven").state == "found"


def test_a_setting_whose_change_helps_nothing_is_a_guess():
    assert after(told("rate"), "refuted").state == "suspected"


def test_what_stands_in_the_source_is_wrong_however_an_experiment_ends():
    assert after(told("loss", stage="loss"), "refuted").state == "found"


def test_an_undecided_experiment_changes_nothing():
    assert after(told("rate"), "undecided") == told("rate")


def test_what_is_read_about_the_line_that_was_seen_is_the_same_finding():
    seen, read = told("always-on-dropout", stage="order", confidence=0.5, line=20), told("unflagged-dropout", line=21)
    one, other = causes.merged([seen], [read], _base.in_order)
    assert (one.rule, one.state) == ("always-on-dropout", "found")
    assert (other.state, other.reason) == ("clear", "told as `always-on-dropout`")


def test_what_is_read_elsewhere_or_of_another_layer_stands_for_itself():
    seen = told("always-on-dropout", line=20)
    others = [told("far", line=40), told("other", line=20, layer="memory")]
    assert len(causes.merged([seen], others, _base.in_order)) == 3


WATCHERS = {"clip-of-scaled-gradients": ("clip-before-unscale",)}


def merged(seen, line=4):
    read = told("clip-of-scaled-gradients", line=line)
    return {each.rule: each for each in causes.merged([seen], [read], _base.in_order, watchers=WATCHERS)}


def test_a_form_that_was_watched_and_found_right_is_no_finding():
    both = merged(Outcome(rule="clip-before-unscale", state="clear"))
    assert {each.state for each in both.values()} == {"clear"}


def test_a_form_that_nobody_watched_is_told_as_it_is_read():
    both = merged(Outcome(rule="clip-before-unscale", state="skipped"))
    assert both["clip-of-scaled-gradients"].state == "found"


def test_what_its_watcher_found_is_one_finding_wherever_it_points():
    both = merged(told("clip-before-unscale", line=90))
    assert both["clip-before-unscale"].state == "found"
    assert both["clip-of-scaled-gradients"].finding is None
