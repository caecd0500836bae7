"""What a report says, before anything is formatted."""

import itertools

import msgspec
import pytest

from netdyno.records.environment import Ceilings
from netdyno.records.evidence import Place, StepTimeline
from netdyno.records.measured import Interval, Split
from netdyno.records.record import Plan
from netdyno.records.trial import Parity
from netdyno.reports import _info as info
from netdyno.reports import _pictures as pictures
from reports import specimens

GOLDEN = specimens.golden()


def test_the_headline_of_a_proven_gain_has_the_factor_the_times_and_the_range():
    told = info.headline(GOLDEN)
    assert told.state == "faster"
    assert told.says == "1.82× faster: 12.4 → 6.8 ms per step (95 %: 1.78 to 1.86×)"


def test_an_interval_that_holds_one_is_never_called_faster():
    told = info.headline(specimens.no_more_than_noise())
    assert told.state == "noise"
    assert told.says.startswith("no proven win")
    assert "not distinguishable from noise" in told.says
    assert "faster" not in told.says


@pytest.mark.parametrize("low", [1.0, 0.999])
def test_a_range_that_begins_at_one_is_noise(low):
    total = specimens.attribution()
    near = msgspec.structs.replace(total, speedup=Interval(middle=1.04, low=low, high=1.08))
    assert info.headline(msgspec.structs.replace(GOLDEN, attribution=near)).state == "noise"


def test_what_is_kept_but_not_attributed_is_not_called_faster():
    told = info.headline(specimens.interrupted())
    assert told.state == "kept"
    assert told.says == "2 changes kept; what they save together was not measured"
    assert "the run did not finish; this is what was known when it stopped" in told.notes
    assert "try: interrupted by the user" in told.notes


def test_a_run_without_a_win_says_by_which_rule():
    told = info.headline(specimens.no_win())
    assert told.state == "none"
    assert "4 changes were tried" in told.says
    assert "none met the rule (all of its interval above 5 % of a step, and every guard holds)" in told.says


def test_a_run_that_measured_nothing_says_so():
    assert info.headline(specimens.empty()).says == "nothing was measured yet"


def test_a_memory_goal_is_answered_in_bytes_first_and_its_price_is_named():
    says = info.headline(specimens.memory_goal()).says
    assert says.startswith("176 MB → 44.0 MB of activations and state; 1.31× slower")


def test_numerics_that_change_are_told_beside_the_headline():
    assert "other randomness: batch-transforms" in info.headline(GOLDEN).notes
    assert not any("loader-workers" in note for note in info.headline(GOLDEN).notes)


def test_the_waterfall_falls_from_baseline_to_final_without_a_gap():
    told = info.waterfall(GOLDEN)
    changes = [row for row in told.rows if row.kind in ("change", "residual")]
    assert changes[0].start == GOLDEN.attribution.baseline_s.middle
    assert all(one.end == two.start for one, two in itertools.pairwise(changes))
    assert changes[-1].end == pytest.approx(GOLDEN.attribution.final_s.middle)
    assert told.closes == "rows and residual add up to the measured total of 5.60 ms (5.44 to 5.77 ms) per step"


def test_a_waterfall_that_does_not_close_says_so():
    total = specimens.attribution()
    open_ = msgspec.structs.replace(total, residual=Interval(middle=0.0009, low=0.0007, high=0.0011))
    told = info.waterfall(msgspec.structs.replace(GOLDEN, attribution=open_))
    assert "do not trust the split" in told.closes
    assert told.rows[-2].note.startswith("more than noise")


def test_a_row_inside_noise_has_no_verb_and_says_why():
    told = info.waterfall(specimens.no_more_than_noise())
    row = told.rows[1]
    assert row.note == "not distinguishable from noise"
    assert row.effect == ("", row.seconds)
    assert row.part is None, "a share of a total that is noise means nothing"


def test_a_change_that_costs_time_is_not_said_to_save_it():
    row = info.waterfall(specimens.memory_goal()).rows[1]
    verb, interval = row.effect
    assert verb == "costs"
    assert (interval.low, interval.middle, interval.high) == (0.0236, 0.0251, 0.0266)


def test_interactions_are_told_with_their_sign_or_as_noise():
    overlap, nothing = info.waterfall(GOLDEN).interactions
    assert "overlaps with the others" in overlap
    assert "no interaction" in nothing
    assert "not distinguishable from noise" in nothing


def test_every_trial_is_told_crashed_ones_too():
    told = info.trials(GOLDEN)
    assert [one.decision for one in told] == ["keep", "keep", "keep", "undecided", "drop", "drop", "failed"]
    crashed = told[-1]
    assert crashed.gain is None
    assert crashed.gain_says == "not measured"
    assert "still compiling" in crashed.failed
    assert "Killed" in crashed.last_words


def test_a_trial_without_a_verdict_is_open():
    assert [one.decision for one in info.trials(specimens.interrupted())] == ["keep", "keep", "open"]


def test_a_prediction_is_scored_against_the_interval():
    hits = {one.change: one.hit for one in info.trials(GOLDEN)}
    assert hits["loader-workers"] == "as predicted"
    assert hits["bf16-autocast"] == "less than predicted"
    assert hits["compile"] is None


def test_a_guard_that_could_not_be_judged_is_neither_held_nor_broken():
    shaky = next(one for one in info.trials(GOLDEN) if one.change == "batch-size")
    assert [(check.name, check.holds) for check in shaky.checks] == [("stability", False), ("quality", None)]


def test_bits_that_differ_are_not_called_equal():
    trial = msgspec.structs.replace(
        GOLDEN.trials[0], parity=(Parity(output="batches", worst=3.0, allowed=0.0, measure="bits"),)
    )
    (told, *_) = info.trials(msgspec.structs.replace(GOLDEN, trials=(trial,)))
    assert told.checks[0] == info.Check("batches", holds=False, says="differs by 3")


def test_what_was_not_tried_has_its_reason():
    told = {one.label: one for one in info.not_tried(GOLDEN)}
    assert told["pin-memory"].why == "the batch never leaves the host: the device is a CPU"
    assert told["pin-memory"].predicted == ""
    assert told["cache-samples"].why == "the walk ended without it; the least gain is 5 %"
    assert told["cache-samples"].predicted == "1 to 4 %"


def test_another_setting_of_a_tried_change_is_not_left_out():
    other = msgspec.structs.replace(
        GOLDEN.proposals[0], change=specimens.Change(id="loader-workers", settings={"workers": 8})
    )
    told = info.not_tried(msgspec.structs.replace(GOLDEN, proposals=(other,)))
    assert told == ()


def test_a_range_that_nobody_knows_is_not_printed_as_if_it_were_one():
    record = specimens.one_spawn()
    (tried,) = info.trials(record)
    told = info.waterfall(record)
    assert tried.gain_says == "29 % (range not known)"
    assert told.says(told.rows[1].seconds) == "3.49 ms (range not known)"
    assert "range not known" in told.closes
    assert told.widest == 0.01243
    assert info.headline(record).says == (
        "no proven win: 12.4 → 8.9 ms per step is not distinguishable from noise (95 %: range not known)"
    )


def test_a_run_that_stopped_does_not_blame_the_walk():
    assert all("walk" not in one.why for one in info.not_tried(specimens.interrupted()))


def test_the_first_finding_comes_first_with_evidence_in_units():
    told = info.diagnosis(GOLDEN.outcomes)
    first = told.findings[0]
    assert first.id == "input-bound"
    assert info.Fact("data", "5.10 ms") in first.evidence
    assert info.Fact("blocked share", "4.3 %") in first.evidence
    assert first.place == "work.py:34 in Digits.train"
    assert told.clear == ("compute-bound", "hidden-syncs", "oversubscribed-threads")
    assert told.skipped == (info.Fact("gpu-starved", "no KernelTable was collected"),)
    assert told.failed[0].name == "memory-pressure"


@pytest.mark.parametrize(
    ("where", "written"),
    [
        (None, ""),
        (Place(module="body.0"), "body.0"),
        (Place(file="a.py"), "a.py"),
        (Place(file="a.py", line=3, step=7), "a.py:3 step 7"),
        (Place(sample=0), "sample 0"),
    ],
)
def test_a_place_is_written_as_far_as_it_is_known(where, written):
    assert info.place(where) == written


def test_the_baseline_has_its_four_parts_with_a_spread():
    told = info.baselines(GOLDEN.baseline, "image")
    assert [row.part for row in told.rows] == ["data", "forward", "forward", "update", "update", "end to end"]
    assert all(" to " in row.between for row in told.rows)
    assert dict(told.facts)["peak memory"] == "412 MB"


def test_quartiles_lie_between_neighbours():
    assert info.quartiles([4.0, 1.0, 3.0, 2.0]) == pytest.approx((1.75, 2.5, 3.25, 3.85))
    assert info.quartiles([5.0]) == (5.0, 5.0, 5.0, 5.0)


def test_how_it_was_measured_answers_the_sceptic():
    told = dict(info.measured(GOLDEN))
    assert told["pairs"].startswith("256 in 6 trials")
    assert told["between processes"].startswith("2 trials, 4 or 5 spawns")
    assert told["waiting for a core"] == "3.1 % of wall time at most, 25 % allowed"
    assert told["stopwatch"] == "21.0 µs per step (0.2 % of it)"
    assert told["kept if"] == "all of the saved share's interval lies above 5 %, and no guard fails"
    assert told["error budget"].endswith("a trial's interval holds at 99.83 %")


def test_under_a_memory_goal_the_rule_of_time_is_not_claimed():
    told = dict(info.measured(specimens.memory_goal()))
    assert "kept if" not in told
    assert told["goal"] == "less memory, at most 500 MB, for at most 5 % of a step"


def test_settings_are_written_as_they_were_chosen():
    record = msgspec.structs.replace(specimens.no_win(), plan=Plan(least_gain=0.025))
    assert "2.5 % of a step" in info.headline(record).says


def test_items_per_second_are_compared_only_when_they_differ():
    assert info.step_counts(GOLDEN).says == "5,149 → 9,370"
    assert info.step_counts(specimens.no_more_than_noise()) is None


def test_faults_lead_the_smoke_baseline():
    assert [line.state for line in info.smoke(GOLDEN.smoke)] == ["wrong", "not checked", "ok", "ok"]


def told_phases(evidence):
    return next(item for item in evidence if isinstance(item, StepTimeline)).phases


def test_the_timeline_has_every_phase_of_before_and_after_once():
    told = pictures.timeline(GOLDEN)
    names = [row.name for row in told.rows]
    assert names == [name for name in pictures.PHASES if name in names]
    assert set(names) == {*told_phases(GOLDEN.evidence), *told_phases(GOLDEN.after)}
    collate = told.rows[1]
    assert collate.after == Split(), "a phase that is gone took no time"
    assert told.widest == max(row.before.wall for row in told.rows)


def test_the_memory_account_begins_with_the_largest_part_and_adds_up():
    told = pictures.memory(GOLDEN)
    assert told.rows[0].name == "activations"
    assert sum(row.bytes for row in told.rows) == told.parts
    assert sum(row.part for row in told.rows) == pytest.approx(1.0)


def test_the_roofline_leaves_out_what_does_no_arithmetic_and_counts_it():
    told = pictures.roofline(GOLDEN)
    assert told.silent == 1
    assert [dot.module for dot in told.dots][:2] == ["body.1.conv", "body.0.conv"]
    assert told.dots[0].rate == pytest.approx(75.5e6 / 0.00082)


def test_a_roofline_without_ceilings_has_no_roof():
    told = pictures.roofline(msgspec.structs.replace(GOLDEN, ceilings=None))
    assert told.matmul == {}
    assert told.bandwidth is None


def test_a_bandwidth_of_nothing_is_no_roof():
    broken = Ceilings(environment="x", threads=1, matmul={"float32": 1e9}, bandwidth=0.0)
    assert pictures.roofline(msgspec.structs.replace(GOLDEN, ceilings=broken)).bandwidth is None


def test_single_outliers_do_not_squash_the_picture_and_are_counted():
    told = pictures.pairs((0.1,) * 50 + (0.11,) * 49 + (-3.0,), (), also=(0.0,))
    assert told.low > -0.1
    assert told.beyond == 1


def test_respawns_are_where_the_spawn_changes():
    assert pictures.pairs((0.1,) * 6, (0, 0, 1, 1, 2, 2)).respawns == (2, 4)


def test_one_pair_makes_no_picture():
    assert pictures.pairs((0.1,), ()) is None


def test_a_finding_about_the_machine_promises_nothing():
    found = specimens.outcomes()[0]
    about = msgspec.structs.replace(found.finding, saves=specimens.Saving(low=0.0, high=0.0))
    (told,) = info.diagnosis([msgspec.structs.replace(found, finding=about)]).findings
    assert told.saves == "nothing to save in the model"
    assert "could save" not in told.line


def test_a_prediction_is_not_scored_against_an_unknown_range():
    assert info.trials(specimens.one_spawn())[0].hit is None


def examined(*outcomes):
    whole = specimens.empty()
    return info.headline(msgspec.structs.replace(whole, outcomes=outcomes, done=("read_source",))).says


def test_an_examination_is_headed_by_its_root_cause():
    found = next(each for each in specimens.outcomes() if each.state == "found")
    assert examined(found).startswith(f"{found.rule}: ")


def test_an_examination_that_found_nothing_says_so():
    assert examined() == "no rule found anything"
