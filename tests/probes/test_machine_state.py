"""The host's state, with planted trouble."""

import types

from netdyno.probes import machine_state as probe


def test_planted_trouble_is_seen(monkeypatch):
    monkeypatch.setattr(probe.os, "getloadavg", lambda: (17.0, 1.0, 1.0))
    monkeypatch.setattr(probe.host, "pressure", lambda _: 0.9)
    monkeypatch.setattr(probe.host, "memory_available", lambda: 5)
    monkeypatch.setattr(probe.host, "free_space", {probe.host.temporary_folder(): 7, probe.SHARED_MEMORY: 9}.get)
    monkeypatch.setattr(probe.psutil, "swap_memory", lambda: types.SimpleNamespace(used=3))
    found = probe.collect.__wrapped__(None)
    assert (found.load, found.cpu_pressure, found.memory_available, found.swap_used) == (17.0, 0.9, 5, 3)
    assert (found.temporary_free, found.shared_memory_free) == (7, 9)
