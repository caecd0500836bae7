"""Threads: which numbers are tried, what is predicted, and that a number lasts for one turn."""

import pytest
import torch

from interventions.specimens import WORDS, facts, timeline
from netdyno.interventions import threads as module
from netdyno.interventions.threads import Threads, candidates
from netdyno.measure.step import turning
from netdyno.records.evidence import OpTable, ThreadUse


@pytest.fixture
def eight_cores(monkeypatch):
    monkeypatch.setattr(module, "cores", lambda: 8)


def use(torch_threads=4, *, waiting=0.0, others=0.0, **seconds):
    return ThreadUse(
        torch_threads=torch_threads,
        interop_threads=1,
        cores=8,
        workers=0,
        worker_threads=0,
        waiting_share=waiting,
        others_share=others,
        step_seconds_by_threads={name.strip("_"): spent for name, spent in seconds.items()},
    )


def ops(mean_us):
    return OpTable(ops=(), dispatches=1000, operator_s=mean_us / 1e3, python_s=0.0)


def test_the_number_lasts_for_a_turn_also_when_the_turn_raises():
    before = torch.get_num_threads()
    with Threads(threads=1).applied(WORDS.fresh(0)) as subject:
        assert torch.get_num_threads() == before
        with turning(subject):
            assert torch.get_num_threads() == 1
        with pytest.raises(ZeroDivisionError), turning(subject):
            raise ZeroDivisionError
        assert torch.get_num_threads() == before


def test_the_numbers_tried_are_powers_of_two_and_the_cores_without_the_present_one(eight_cores):
    assert candidates(8) == [1, 2, 4, 7]
    assert candidates(1) == [2, 4, 7, 8]


def test_settings_come_in_the_order_in_which_a_probe_timed_them(eight_cores):
    known = facts(use(4, _1=0.9, _2=0.3, _8=0.5))
    assert [setting.threads for setting in Threads().settings(WORDS.fresh(0), known)] == [2, 8, 1, 7]


def test_what_a_probe_timed_is_the_prediction():
    known = facts(use(4, _1=0.10, _2=0.05, _4=0.08))
    prediction = Threads(threads=2).predicts(known)
    assert prediction.low < 1 - 0.05 / 0.08 < prediction.high
    assert "50 ms" in prediction.why
    assert Threads(threads=1).predicts(known) is None


def test_without_a_probe_fewer_threads_are_expected_to_help_small_operators_and_busy_machines():
    fewer = Threads(threads=1)
    assert fewer.predicts(facts(use(4), ops(5))).high > 0.3
    assert fewer.predicts(facts(use(4), ops(500))) is None
    busy = fewer.predicts(facts(use(4, waiting=0.2), ops(500)))
    assert busy.high == pytest.approx(0.4)
    assert "20%" in busy.why


def test_more_threads_can_at_most_share_the_compute_phases_out():
    prediction = Threads(threads=8).predicts(facts(use(4), timeline(data=50, forward=25, backward=25)))
    assert (prediction.low, prediction.high) == (0.0, pytest.approx(0.25))


def test_the_present_number_is_not_proposed():
    assert Threads(threads=4).predicts(facts(use(4))) is None


def test_it_refuses_more_threads_than_cores(eight_cores):
    assert "8 cores" in Threads(threads=9).refuses(WORDS.fresh(0))
    assert Threads(threads=8).refuses(WORDS.fresh(0)) is None
