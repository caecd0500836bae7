"""Workloads that are sick by construction get the right first finding, from evidence as the probes write it.

`evidence/` holds what the probes wrote about built-in workloads on a two-core machine that was busy with other
work at the time (load 8 to 10, one thread per process).
"""

from pathlib import Path

import msgspec
import pytest

from netdyno.records.base import Noun
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import AnyEvidence, LoaderProfile
from netdyno.rules._base import diagnose

EVIDENCE = Path(__file__).parent / "evidence"


class Stored(Noun, frozen=True, kw_only=True):
    ceilings: Ceilings
    evidence: tuple[AnyEvidence, ...]


def outcomes_of(name, *, without=()):
    stored = msgspec.json.decode((EVIDENCE / f"{name}.json").read_bytes(), type=Stored)
    return diagnose([item for item in stored.evidence if type(item) not in without], ceilings=stored.ceilings)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("matmul", "compute-bound"),
        ("transformer", "compute-bound"),
        ("copybound", "memory-bandwidth-bound"),
        ("sleepy", "input-bound"),
        ("digits", "input-bound"),
        ("python_bound", "python-bound"),
    ],
)
def test_the_first_finding_is_what_the_workload_was_built_to_have(name, first):
    (outcome, *_) = outcomes_of(name)
    assert (outcome.state, outcome.rule) == ("found", first)


@pytest.mark.parametrize(("name", "kind"), [("sleepy", "I/O-bound"), ("digits", "CPU-bound")])
def test_a_loader_that_waits_is_told_from_one_that_computes(name, kind):
    assert kind in outcomes_of(name)[0].finding.says


def test_without_a_loader_profile_the_timeline_still_tells_them_apart():
    assert "I/O-bound" in outcomes_of("sleepy", without=(LoaderProfile,))[0].finding.says


def test_a_slow_optimizer_among_nothing_but_small_calls_is_not_a_sickness_of_its_own():
    outcomes = outcomes_of("python_bound")
    assert outcomes[0].finding.explains == ("optimizer-bound",)
    assert outcomes[1].rule == "optimizer-bound"


def test_a_busy_machine_is_said_and_wins_nothing():
    (busy,) = [outcome for outcome in outcomes_of("matmul") if outcome.rule == "contended-machine"]
    assert busy.state == "found"
    assert busy.finding.saves.high == 0.0
