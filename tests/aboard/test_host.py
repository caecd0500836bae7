"""What a process is told of its memory."""

import resource

import pytest

from netdyno.aboard import host


@pytest.mark.parametrize(("limit", "name"), [("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")])
def test_a_limit_of_the_process_is_all_there_is(monkeypatch, limit, name):
    used = host._sizes("/proc/self/status")[name]
    limits = {getattr(resource, limit): used + (64 << 20)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limits.get(which, resource.RLIM_INFINITY),) * 2)
    assert host.available() <= 72 << 20
    limits.clear()
    assert host.available() > 72 << 20
