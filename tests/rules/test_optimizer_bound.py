"""How long the memory needs for an update at least."""

import pytest

from netdyno.records.environment import Ceilings
from netdyno.records.evidence import MemoryAccount, ThreadUse
from netdyno.rules.optimizer_bound import _timeline, least_seconds, optimizer_bound

ACCOUNT = MemoryAccount(
    parameters=1_000_000, buffers=0, gradients=1_000_000, optimizer_state=2_000_000, activations=0, workspace=0, batch=0,
    peak=0, capacity=1, available=1,
)  # fmt: skip
CEILINGS = Ceilings(environment="", threads=1, matmul={}, bandwidth=7e9)
CROWDED = ThreadUse(
    torch_threads=2, interop_threads=1, cores=2, workers=0, worker_threads=1, waiting_share=0.5, others_share=0.5
)


def test_parameters_and_state_pass_twice_and_gradients_once():
    assert least_seconds(ACCOUNT, CEILINGS) == pytest.approx(7e6 / 7e9)


def test_no_update_is_promised_to_be_quicker_than_the_memory():
    finding = optimizer_bound(_timeline(0.010), ACCOUNT, CEILINGS, None)
    assert finding.saves.high == pytest.approx(0.5 * 0.9)
    assert "10%" in finding.says


def test_threads_that_spin_make_it_a_suspicion():
    assert optimizer_bound(_timeline(0.010), None, None, CROWDED).confidence < 0.7
