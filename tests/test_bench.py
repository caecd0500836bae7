"""The walk of one run: its steps, what they leave in the record, and what stops it."""

import pytest
from msgspec.structs import replace

from netdyno import bench
from netdyno.errors import NetdynoError
from netdyno.records.measured import Interval
from netdyno.records.record import Plan, Proposal, SmokeCheck
from netdyno.records.trial import Change, Verdict
from netdyno.store import Store
from netdyno.targets.workload import load
from netdyno.trials.choose import Choice
from netdyno.trials.lab import Lab


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("store"))
    plan = Plan(budget_s=60.0, trial_s=4.0, only=("fused-optimizer", "tensor-slicing"), spawns=3)
    said = []
    record = bench.tune("garage:tiny", plan, store=store, listener=said.append)
    return record, store, said


def test_every_step_of_the_walk_is_done_in_order_and_saved(tuned):
    record, store, _ = tuned
    assert record.done == (
        "describe", "check", "baseline", "gather", "diagnose", "walk", "prune", "attribute", "close",
    )  # fmt: skip
    assert record.finished
    assert store.load(record.id) == record


def test_every_rule_says_something(tuned):
    record, _, _ = tuned
    assert {outcome.state for outcome in record.outcomes} <= {"found", "suspected", "clear", "skipped"}
    assert len(record.outcomes) >= 8


def test_every_trial_has_its_verdict_and_a_prediction_that_was_written_down_before(tuned):
    record, _, _ = tuned
    assert record.trials
    assert [verdict.trial for verdict in record.verdicts] == list(range(len(record.trials)))
    walked = [record.trials[verdict.trial] for verdict in record.verdicts if verdict.ticks is not None]
    assert walked
    assert all(trial.prediction is not None for trial in walked)


def test_what_was_kept_was_tried_and_what_was_not_tried_says_why(tuned):
    record, _, _ = tuned
    assert {change.id for change in record.recipe} <= {trial.change.id for trial in record.trials}
    tried = {trial.change.id for trial in record.trials}
    left = [proposal for proposal in record.proposals if proposal.change.id not in tried]
    assert all(proposal.refused for proposal in left if proposal.change.id not in {"fused-optimizer", "tensor-slicing"})


def test_a_claim_adds_up(tuned):
    record, _, _ = tuned
    if record.attribution is None:
        pytest.skip("this machine, just now, proved nothing")
    claim = record.attribution
    parts = sum(share.gain.middle for share in claim.shares) + claim.residual.middle
    assert parts == pytest.approx(claim.total.middle)


def test_work_is_told_while_it_goes_on(tuned):
    _, _, said = tuned
    assert {"four baselines", "gathering evidence"} <= {event.doing for event in said}


def test_a_record_that_claims_nothing_cannot_be_replayed(tuned):
    record, _, _ = tuned
    with pytest.raises(NetdynoError, match="cannot replay"):
        bench.replay(replace(record, attribution=None))


def test_when_nothing_is_left_to_try_what_lay_near_the_line_is_tried_once_more(tuned, monkeypatch):
    record, store, _ = tuned
    trial = replace(record.trials[0], form="in-process", cost_s=1.0)
    gain = Interval(middle=0.05, low=0.03, high=0.07, level=0.999)
    undecided = Verdict(trial=0, decision="undecided", gain=gain, reasons=())
    proposal = Proposal(
        change=trial.change, layers=("optimizer",), numerics="same-bits", predicted_low=0.04, predicted_high=0.08,
        why="", effort=1.0,
    )  # fmt: skip
    record = replace(record, plan=Plan(budget_s=600.0), trials=(trial,), verdicts=(undecided,), recipe=())
    campaign = bench.Campaign(
        lab=Lab(reference="garage:tiny", workload=load("garage:tiny"), plan=record.plan), store=store, listener=id,
        clock=lambda: 0.0, began=0.0, propose=lambda *_: (proposal,), look_under=bench._look_under,
    )  # fmt: skip
    asked = []

    def still_undecided(campaign, record, proposal, *, pairs):
        asked.append((proposal.change, pairs))
        return replace(record, trials=(*record.trials, trial), verdicts=(*record.verdicts, replace(undecided, trial=1)))

    monkeypatch.setattr(bench, "_tried", still_undecided)
    record = bench.walk(campaign, record)
    assert [change for change, _ in asked] == [trial.change]  # once, and then its two chances are spent
    assert asked[0][1] > len(trial.control.samples)


@pytest.mark.parametrize(
    ("checks", "stops"),
    [
        ([("samples", True), ("loss", True), ("learning", False)], None),
        ([("samples", False), ("loss", None)], "samples"),
        ([("model", False), ("loss", None)], "model"),
        ([("layout", False), ("loss", False)], "layout"),
        ([("labels", False), ("loss", True)], None),
    ],
)
def test_only_what_keeps_a_target_from_stepping_stops_a_run(checks, stops):
    found = tuple(SmokeCheck(name=name, ok=ok, says="") for name, ok in checks)
    stopper = bench._stopper(found)
    assert (stopper.name if stopper else None) == stops


def test_a_trial_between_processes_is_dearer_than_one_in_this_process(tuned):
    record, store, _ = tuned
    record = replace(record, plan=Plan(), trials=())
    lab = Lab(reference="garage:tiny", workload=load("garage:tiny"), plan=Plan())
    campaign = bench.Campaign(
        lab=lab, store=store, listener=print, clock=lambda: 0.0, began=0.0, propose=bench._propose, look_under=bench._look_under
    )  # fmt: skip

    def price(name, **settings):
        change = Change(id=name, settings=settings)
        proposal = Proposal(
            change=change, layers=("data",), numerics="same-bits", predicted_low=0.1, predicted_high=0.2,
            why="", effort=1.0, seconds=lab.expected_s((change,)),
        )  # fmt: skip
        return bench._price(campaign, record, Choice(name, (proposal,)))

    assert price("set-to-none") < price("loader-workers", workers=2) < price("wait-policy")
