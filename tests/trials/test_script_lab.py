"""A lab of running scripts: which form a comparison takes, what is learned of training, what could be tried."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from netdyno.errors import ArmError
from netdyno.records.evidence import LayerTable, Loader, LoaderProfile, LoaderUse, ScriptTrace, StepTimeline, ThreadUse
from netdyno.records.measured import Measurement, Split
from netdyno.records.record import Plan
from netdyno.records.trial import Change, Prediction, Trial
from netdyno.targets.script import Script
from netdyno.trials import script_choose as choose
from netdyno.trials.choose import example_of, proposal
from netdyno.trials.script_lab import ScriptLab, from_the_start, scatter
from netdyno.verdicts.attribute import key_of

FUSED = Change(id="fused-optimizer")
THREADS = Change(id="threads", settings={"threads": 1})
WORKERS = Change(id="loader-workers", settings={"workers": 2})
WAITING = Change(id="wait-policy")
SCRIPT = Script(argv=("python", "train.py"), cwd=Path("/nowhere"), name="train", file=None, kind="file")


class Session:
    """A running script that answers and never runs."""

    def __init__(self, refuses=None):
        self.refuses = refuses or {}
        self.asked = []
        self.touched = set()

    def ask(self, change, *, recipe=()):
        self.asked.append(change.id)
        return self.refuses.get(change.id)

    def undo(self, change, *, recipe=()):
        return None


def lab(*, session=None, **plan):
    found = ScriptLab(script=SCRIPT, plan=Plan(**plan))
    found.startup_s.append(6.0)
    found.sessions[key_of(())] = session or Session()
    return found


def timeline(**phases):
    split = {name: Split(running=seconds) for name, seconds in phases.items()}
    return StepTimeline(steps=50, step=sum(split.values(), Split()), phases=split)


def trial(change, numerics="reordered"):
    nothing = Measurement(quantity="", unit="s", samples=())
    return Trial(change=change, against=(), form="in-process", numerics=numerics, control=nothing, treatment=nothing)


def losses(bend=0.0, count=60):
    return tuple(2 * math.exp(-i / 40) * (1 + bend) for i in range(count))


def test_what_only_works_from_the_start_is_told_from_what_can_be_switched():
    assert from_the_start((FUSED, WORKERS, THREADS, WAITING)) == (WORKERS, WAITING)


def test_sides_that_start_alike_are_compared_inside_one_script():
    here = lab()
    assert here.form((), (FUSED,)) == "in-process"
    assert here.form((WORKERS,), (WORKERS, FUSED)) == "in-process"
    assert here.form((), (WORKERS,)) == "processes"


def test_a_trial_between_processes_is_priced_by_the_starts_it_takes():
    here = lab()
    assert here.expected_s((WORKERS,)) > here.expected_s((FUSED,)) + 5 * 6.0


def test_a_change_that_keeps_every_loss_is_said_to_keep_the_bits():
    here = lab()
    here.learn((), losses())
    here.learn((FUSED,), losses())
    (parity,), _ = here.quality(trial(FUSED))
    assert (parity.measure, parity.holds) == ("bits", True)


def test_a_promise_of_the_same_bits_is_held_to_the_last_one():
    here = lab()
    here.learn((), losses())
    here.learn((WORKERS,), (*losses()[:-1], 0.1))
    (parity,), _ = here.quality(trial(WORKERS, numerics="same-bits"))
    assert not parity.holds


@pytest.mark.parametrize(("bend", "holds"), [(1e-6, True), (0.5, False)])
def test_other_roundings_are_judged_beside_runs_that_only_round_otherwise(bend, holds):
    here = lab()
    here.learn((), losses())
    for units in (1, 2):
        here.learn((), losses(1e-6 * units), nudge=units)
    here.learn((FUSED,), losses(bend))
    (parity,), _ = here.quality(trial(FUSED))
    assert (parity.measure, parity.holds) == ("envelope", holds)


def test_too_few_losses_are_no_proof():
    here = lab()
    here.learn((), losses(count=8))
    parities, guards = here.quality(trial(FUSED))
    assert parities == ()
    assert guards[0].holds is None


def test_a_script_without_a_loss_says_so():
    with pytest.raises(ArmError, match="no loss"):
        lab().learn((), (math.nan,))


def test_all_runs_of_a_campaign_are_as_long_as_the_first():
    here = lab()
    here.learn((), losses(count=50))
    here.learn((FUSED,), losses(count=400))
    assert {len(run.train_losses[0]) for run in here.learned.values()} == {50}


def test_a_trend_is_no_scatter():
    here = lab()
    here.learn((), losses())
    noisy = tuple(loss + 0.1 * (-1) ** i for i, loss in enumerate(losses()))
    here.learn((FUSED,), noisy)
    calm, wild = (scatter(here.learned[key_of(recipe), 0]).over_epochs.middle for recipe in ((), (FUSED,)))
    assert wild > 3 * calm


def loader(**more):
    fields = {
        "where": None, "dataset": "Files", "trains": True, "iterable": False, "batch_size": 10, "batches_per_pass": 20,
        "sampler": "RandomSampler", "ordered": False, "own_order": False, "workers": 0,
    }  # fmt: skip
    return LoaderUse(loaders=(Loader(**fields | more),), span_s=10.0)


def trace():
    return ScriptTrace(
        attached="", processes=1, updates=50, counted_by="optimizer", cycle=1, events=(), optimizers=(), span_s=10.0,
        own_s=0.0, unattributed=0.0, threads=2,
    )  # fmt: skip


def test_the_price_of_a_sample_follows_from_the_time_a_batch_takes():
    facts = choose.facts_of((timeline(data=0.02, forward=0.02), loader(), trace()))
    assert facts[LoaderProfile].sample.running == pytest.approx(0.002)
    assert facts[LoaderProfile].samples == 200
    assert facts[ThreadUse].torch_threads == 2


def test_threads_that_were_seen_go_before_those_that_are_reckoned():
    seen = ThreadUse(
        torch_threads=4, interop_threads=2, cores=8, workers=0, worker_threads=0, waiting_share=0.0, others_share=0.5
    )  # fmt: skip
    assert choose.facts_of((timeline(forward=0.02), trace(), seen))[ThreadUse] is seen


def test_counted_work_takes_no_change_of_the_evaluation_away():
    work = LayerTable(
        layers=(), forward_flops=1.0, step_flops=3.0, step_bytes=1.0, dtype="float32", ridge=1.0, compute_seconds=0.01
    )  # fmt: skip
    facts = choose.facts_of((timeline(forward=0.02, evaluation=0.02), work))
    assert choose._at_most("inference-mode", facts).high == pytest.approx(0.5)


def test_behind_workers_the_price_of_a_sample_is_not_known():
    facts = choose.facts_of((timeline(data=0.02, forward=0.02), loader(workers=2)))
    assert facts[LoaderProfile].sample.own == 0


def proposed(here, evidence, recipe=()):
    found = choose.proposals(here, choose.facts_of(evidence), recipe=recipe, trust={})
    return {each.change.id: each for each in found}


INPUT_BOUND = (timeline(data=0.05, forward=0.02, backward=0.02, optimizer=0.01), loader(), trace())


def test_the_script_itself_is_asked_only_about_what_is_worth_a_trial():
    session = Session(refuses={"cache-samples": "a sample read twice is not the same"})
    found = proposed(lab(session=session, least_gain=0.2), INPUT_BOUND)
    assert found["cache-samples"].refused == "a sample read twice is not the same"
    assert "fused-optimizer" not in session.asked
    assert "it could save at most" in found["fused-optimizer"].refused


def test_what_changes_the_training_itself_is_not_proposed():
    assert not {"batch-size", "fp16-autocast", "conv-bn-fold"} & set(proposed(lab(), INPUT_BOUND))


def test_what_is_asked_for_by_name_and_cannot_be_done_says_so():
    found = proposed(lab(only=("batch-size",)), INPUT_BOUND)
    assert "cannot be made to a script from outside" in found["batch-size"].refused


def test_a_budget_too_small_for_the_starts_of_a_trial_leaves_it_out_aloud():
    here = lab(budget_s=60.0)
    here.startup_s[:] = [20.0]
    wanted = proposal(example_of("loader-workers"), 1.0, Prediction(low=0.1, high=0.5, why=""))
    assert "the budget leaves 24 s for one" in choose._priced(here, wanted, ()).refused
    assert choose._priced(lab(budget_s=6000.0), wanted, ()).refused is None


def test_a_script_that_cannot_be_asked_is_a_reason_not_the_end():
    def fails(*_, **__):
        raise ArmError("it crashed")

    here = lab(session=SimpleNamespace(ask=fails, touched=set()))
    assert "could not be asked: it crashed" in proposed(here, INPUT_BOUND)["cache-samples"].refused


def test_where_workers_start_anew_with_each_pass_a_turn_is_a_whole_one():
    here = lab()
    assert here.fresh((), (WORKERS,))
    assert not here.fresh((), (FUSED,), (WAITING,))
    here.passes.append(32)
    assert here._steps_of_a_turn(0.01, "processes", workers=8) == 32
    assert here._steps_of_a_turn(0.01, "in-process", workers=0) == 2
    assert here._steps_of_a_turn(1.0, "processes", workers=8) == 8, "an epoch of half a minute is cut into rotations"
