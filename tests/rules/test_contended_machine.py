"""What else is said about a busy machine."""

from netdyno.records.evidence import MachineState
from netdyno.rules.contended_machine import _case, contended_machine

LOADED = MachineState(
    load=8.0, cpu_pressure=0.9, memory_available=1, memory_total=1, swap_used=0, temporary_free=1, shared_memory_free=1
)


def test_the_load_stands_beside_it():
    assert contended_machine(*_case(waiting=0.010, others=0.9), LOADED).because["load"] == 8.0


def test_without_a_look_at_the_others_it_is_a_suspicion():
    timeline, _ = _case(waiting=0.010, others=0.9)
    assert contended_machine(timeline, None, None).confidence < 0.7
