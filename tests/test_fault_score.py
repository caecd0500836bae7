"""The scorer of the fault bench on toy answers: it gives the good marks, and it can fail each of them."""

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # the benches are no part of the installed package

from benchmarks import fault_score as score
from benchmarks.fault_score import Share, Told, Truth

RIGHT = Truth((frozenset({"softmax-before-loss", "double-softmax"}),), lines=(40,), located=True)
TWO = Truth((frozenset({"a"}), frozenset({"b"})))


def outcome(rule, state="found", stage="loss", **more):
    return {"rule": rule, "state": state, "finding": {"stage": stage, "layer": "optimisation", **more}}


def test_suspicions_and_remarks_about_the_machine_are_not_told():
    outcomes = [outcome("a", "suspected"), outcome("contended-machine", stage="note"), outcome("b"),
                {"rule": "c", "state": "clear", "finding": None}]  # fmt: skip
    assert [one.rule for one in score.told(outcomes)] == ["b"]


def test_the_place_of_a_finding_is_read():
    (one,) = score.told([outcome("a", where={"file": "train.py", "line": 7, "module": "fc1"})])
    assert (one.file, one.line, one.module) == ("train.py", 7, "fc1")


def test_any_accepted_name_in_front_is_right():
    assert score.mark([Told("double-softmax")], RIGHT).top1


def test_the_cause_in_second_place_is_not_strictly_right_but_among_three():
    got = score.mark([Told("dead-units"), Told("double-softmax")], RIGHT)
    assert (got.top1, got.top3, got.lenient, got.wrong) == (False, True, True, 1)


def test_the_cause_in_fourth_place_is_right_only_leniently():
    got = score.mark([Told("x"), Told("y"), Told("z"), Told("double-softmax")], RIGHT)
    assert (got.top1, got.top3, got.lenient) == (False, False, True)


def test_silence_about_a_fault_is_a_miss():
    got = score.mark([], RIGHT)
    assert (got.detected, got.top1, got.lenient, got.named) == (False, False, False, 0)


def test_a_wrong_name_detects_and_does_not_name():
    got = score.mark([Told("overfitting")], RIGHT)
    assert (got.detected, got.top1, got.lenient, got.wrong) == (True, False, False, 1)


def test_a_symptom_told_under_its_cause_is_no_extra_guess():
    got = score.mark([Told("double-softmax", explains=("plateau",)), Told("plateau")], RIGHT)
    assert (got.wrong, got.symptoms) == (0, 1)


def test_of_two_causes_one_named_is_half():
    got = score.totals([score.mark([Told("a")], TWO)])
    assert (got.recall, got.precision, got.top1.hits) == (0.5, 1.0, 1)


def test_two_names_of_one_cause_count_once():
    got = score.mark([Told("softmax-before-loss"), Told("double-softmax")], RIGHT)
    assert got.named == 1


@pytest.mark.parametrize(
    ("line", "there"), [(39, True), (40, True), (41, True), (38, False), (42, False), (None, False)]
)
def test_a_place_is_right_within_one_line(line, there):
    assert score.mark([Told("double-softmax", file="train.py", line=line)], RIGHT).place is there


def test_the_place_of_a_wrong_name_is_not_asked():
    assert score.mark([Told("overfitting", file="train.py", line=40)], RIGHT).place is None


def test_a_truth_without_a_place_asks_for_none():
    assert score.mark([Told("a", line=3)], TWO).place is None


def test_a_module_or_a_sample_or_a_step_is_a_place_too():
    assert score.is_there(Told("x", module="fc1"), Truth((), module="fc1"))
    assert score.is_there(Told("x", sample=7), Truth((), sample=7))
    assert score.is_there(Told("x", step=0), Truth((), step=0))
    assert not score.is_there(Told("x", module="fc2"), Truth((), module="fc1"))
    assert not score.is_there(Told("x"), Truth((), sample=7))


def test_extra_guesses_cost_precision():
    marks = [score.mark([Told("double-softmax"), Told("x"), Told("y")], RIGHT)]
    assert score.totals(marks).precision == pytest.approx(1 / 3)


def test_an_offer_of_speed_costs_precision_unless_only_faults_are_asked_for():
    got = score.totals([score.mark([Told("double-softmax"), Told("input-bound", stage="speed"), Told("x")], RIGHT)])
    assert got.precision == pytest.approx(1 / 3)
    assert got.precision_faults == pytest.approx(1 / 2)


def test_a_program_without_an_answer_counts_as_missed():
    got = score.totals([score.mark([], RIGHT, answered=False), score.mark([Told("double-softmax")], RIGHT)])
    assert (got.answered, got.detected, got.top1.value) == (1, Share(1, 2), 0.5)


def test_always_the_same_answer_is_right_only_where_it_is_true():
    others = [Truth((frozenset({name}),)) for name in ("a", "b", "c")]
    got = score.totals([score.mark([Told("a")], truth) for truth in others])
    assert (got.detected.value, got.top1.hits) == (1.0, 1)


def test_no_marks_are_no_success():
    got = score.totals([])
    assert (got.precision, got.recall, got.f1, str(got.top1)) == (0.0, 0.0, 0.0, "none")


def test_any_finding_on_a_healthy_program_is_an_alarm():
    got = score.alarms([((), 500), ((Told("x", stage="outcome"),), 250), ((Told("input-bound", stage="speed"),), 250)])
    assert (got.any, got.wrong, got.slow) == (Share(2, 3), Share(1, 3), Share(1, 3))
    assert got.per_rule == {"x": 1, "input-bound": 1}
    assert got.per_1000_updates == 2.0


def test_silence_on_healthy_programs_is_no_alarm():
    assert score.alarms([((), 10), ((), 10)]).any == Share(0, 2)


def test_the_surest_answers_are_asked_for_first():
    marks = [
        score.mark([Told("double-softmax", confidence=0.9)], RIGHT),
        score.mark([Told("x", confidence=0.7)], RIGHT),
    ]
    assert score.selective(marks, 0.5) == 1.0
    assert score.selective(marks, 1.0) == 0.5
    assert score.selective([*marks, score.mark([], RIGHT)], 1.0) is None


def test_a_run_that_broke_down_is_the_worst_whichever_way_is_better():
    for better, well in (("lower", [0.1, 0.2, 0.3]), ("higher", [0.9, 0.8, 0.7])):
        assert score.worse_by_ranks([math.nan, math.inf, math.nan], well, better=better) == pytest.approx(1 / 20)


def test_a_faulty_run_that_is_better_is_no_harm():
    assert score.worse_by_ranks([0.1, 0.2, 0.3], [1, 2, 3], better="lower") == 1.0
    assert score.worse_by_ranks([1, 2, 3], [0.1, 0.2, 0.3], better="higher") == 1.0


def test_overlapping_runs_are_no_harm_at_one_in_a_hundred():
    assert score.worse_by_ranks([1, 3, 5, 7, 9], [0, 2, 4, 6, 8], better="lower") > 0.01


def test_the_ranks_agree_with_scipy_where_nothing_ties():
    stats = pytest.importorskip("scipy.stats")
    faulty, fixed = [1.2, 3.4, 2.2, 5.0, 4.1], [0.3, 1.0, 2.0, 0.7, 3.0]
    asked = stats.mannwhitneyu(faulty, fixed, alternative="greater", method="exact").pvalue
    assert score.worse_by_ranks(faulty, fixed, better="lower") == pytest.approx(asked)


def test_what_was_said_first_is_sorted_by_section():
    table = score.confusion([("data", "data"), ("data", ""), ("memory", "data")])
    assert table["data"] == {"data": 1, "nothing": 1}
    assert table["memory"] == {"data": 1}


def test_a_tenth_has_something_of_every_section():
    ids = [f"{letter}{n:02}" for letter in "DCMOGTPXUH" for n in range(1, 25)]
    chosen = score.tenth(ids)
    assert {each[0] for each in chosen} == set("DCMOGTPXUH")
    assert len(chosen) == 30


def test_a_line_one_step_from_the_change_is_right_and_its_neighbours_are_not():
    truth = Truth((frozenset({"x"}),), lines=(3,), near=(30,), located=True)
    assert score.is_there(Told("x", file=score.PROGRAM, line=30), truth)
    assert not score.is_there(Told("x", file=score.PROGRAM, line=31), truth)
    assert not score.is_there(Told("x", file="other.py", line=30), truth)
    assert not score.is_there(Told("x"), truth)


def test_a_place_on_the_change_itself_is_told_from_one_that_is_a_step_away():
    truth = Truth((frozenset({"x"}),), lines=(3,), near=(30,), located=True)
    on, off = (score.mark([Told("x", file=score.PROGRAM, line=line)], truth) for line in (4, 30))
    assert (on.place, on.on_change) == (True, True)
    assert (off.place, off.on_change) == (True, False)
    assert not score.mark([Told("y")], truth).on_change
