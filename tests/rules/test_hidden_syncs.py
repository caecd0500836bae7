"""Reads on a host cost their time, reads on a device the queue."""

from netdyno.rules.hidden_syncs import _GPU, _case, hidden_syncs


def test_one_read_in_every_second_step_breaks_a_devices_queue():
    assert hidden_syncs(*_case(per_step=0.5, seconds=0.0), _GPU) is not None
    assert hidden_syncs(*_case(per_step=0.1, seconds=0.0), _GPU) is None


def test_on_a_host_only_time_counts():
    assert hidden_syncs(*_case(per_step=50.0, seconds=0.0), None) is None
    assert "work.py:12" in hidden_syncs(*_case(per_step=50.0, seconds=0.001), None).says
