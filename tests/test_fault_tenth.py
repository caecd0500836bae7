"""A tenth of the fault bench, run for good: no healthy program is told that it is sick, and most faults are named first."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the benches are no part of the installed package

from benchmarks import fault_bench, fault_page  # noqa: E402
from benchmarks.fault_score import alarms, tenth, told, totals  # noqa: E402

# Far below what the whole bench shows, since a tenth is some twenty programs: what this test holds is that nothing broke.
AT_LEAST = 0.5
CORES = min(4, len(os.sched_getaffinity(0)))  # a program on each: so nothing else should run beside this file
TIME = ("speed", "bound", "nature", "note")  # what costs time depends on the machine of the hour


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    root = tmp_path_factory.mktemp("fault-bench")
    bench = fault_bench.assembled(tenth(fault_bench.every_id()))
    return bench, fault_bench.asked(bench, root, jobs=CORES, again=False, prove=False)


@pytest.mark.slow
def test_every_program_of_a_tenth_gets_an_answer(answered):
    bench, answers = answered
    names = fault_bench.names_of(bench)
    assert not [(names[key], each.says) for key, each in answers.items() if each.status != "answered"]


@pytest.mark.slow
def test_no_healthy_program_of_a_tenth_is_told_that_it_is_sick(answered):
    bench, answers = answered
    well = [each for role in ("control", "fixed", "twin") for each in fault_page.healthy(bench, answers, role)]
    sick = {entry.name: [one.rule for one in told(answer.outcomes) if one.stage not in TIME] for entry, answer in well}
    assert not {name: rules for name, rules in sick.items() if rules}
    assert alarms([(told(answer.outcomes), answer.updates) for _, answer in well]).wrong.hits == 0


@pytest.mark.slow
def test_most_faults_of_a_tenth_are_named_first(answered):
    bench, answers = answered
    sums = totals([each.mark for each in fault_page.scored(bench, answers)])
    assert sums.top1.value >= AT_LEAST
