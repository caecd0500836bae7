"""Which part is named, and when swap counts."""

import msgspec
import pytest

from netdyno.records.evidence import MachineState, MemoryAccount
from netdyno.rules.memory_pressure import memory_pressure

GIB = 2**30
ROOMY = MemoryAccount(
    parameters=1, buffers=0, gradients=1, optimizer_state=2, activations=5, workspace=0, batch=1, peak=2 * GIB,
    capacity=20 * GIB, available=10 * GIB,
)  # fmt: skip
SWAPPING = MachineState(
    load=1.0, cpu_pressure=0.0, memory_available=GIB, memory_total=20 * GIB, swap_used=GIB, temporary_free=GIB,
    shared_memory_free=GIB,
)  # fmt: skip


def test_a_step_that_does_not_fit_beside_full_swap_is_told():
    assert memory_pressure(ROOMY, SWAPPING) is not None


def test_old_swap_beside_free_memory_says_nothing():
    assert memory_pressure(ROOMY, msgspec.structs.replace(SWAPPING, memory_available=8 * GIB)) is None


@pytest.mark.parametrize(
    ("part", "cure"), [("optimizer_state", "less state"), ("parameters", "smaller model"), ("batch", "smaller batch")]
)
def test_the_largest_part_chooses_the_cure(part, cure):
    full = msgspec.structs.replace(ROOMY, **{part: 9 * GIB, "peak": 9 * GIB})
    assert cure in memory_pressure(full, None).fix


def test_where_no_tensor_is_large_the_process_is_named():
    found = memory_pressure(msgspec.structs.replace(ROOMY, peak=9 * GIB), None)
    assert "the rest of the process" in found.says
    assert "held in memory" in found.fix
