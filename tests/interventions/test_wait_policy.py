"""The wait policy is proposed only where threads wait, and lives in the environment alone."""

import torch

from interventions.specimens import WORDS, facts
from netdyno.interventions._base import environment_of, form_of, written
from netdyno.interventions.wait_policy import WaitPolicy
from netdyno.records.evidence import ThreadUse


def use(threads=2, waiting=0.0, others=0.0):
    return ThreadUse(
        torch_threads=threads,
        interop_threads=1,
        cores=2,
        workers=0,
        worker_threads=0,
        waiting_share=waiting,
        others_share=others,
    )


def test_it_is_an_environment_for_a_process_of_its_own():
    recipe = (written(WaitPolicy()),)
    assert form_of(recipe) == "processes"
    assert environment_of(recipe)["OMP_WAIT_POLICY"] == "PASSIVE"


def test_it_is_predicted_only_where_threads_wait_for_cores():
    assert WaitPolicy().predicts(facts(use(waiting=0.3))).high == 0.3
    assert WaitPolicy().predicts(facts(use(others=0.5))).high == 0.25
    assert WaitPolicy().predicts(facts(use(waiting=0.05))) is None
    assert WaitPolicy().predicts(facts(use(threads=1, waiting=0.9))) is None
    assert WaitPolicy().predicts({}) is None


def test_it_refuses_one_thread_and_a_policy_that_is_there(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert "one thread" in WaitPolicy().refuses(WORDS.fresh(0))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert WaitPolicy().refuses(WORDS.fresh(0)) is None
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    assert "already" in WaitPolicy().refuses(WORDS.fresh(0))
