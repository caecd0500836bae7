"""What the machine has left, with the system's files played by a folder."""

import os

import pytest

from netdyno.measure import host


@pytest.fixture
def files(monkeypatch):
    there = {}
    monkeypatch.setattr(host, "_text", lambda path: there.get(path, ""))
    return there


def test_a_container_limit_counts_when_it_is_the_smaller(files):
    files["/proc/self/cgroup"] = "0::/job\n"
    files["/sys/fs/cgroup/job/memory.max"] = str(100 << 20)
    files["/sys/fs/cgroup/job/memory.current"] = str(60 << 20)
    files["/sys/fs/cgroup/job/memory.stat"] = f"anon 5\ninactive_file {10 << 20}\n"
    assert host.memory_capacity() == 100 << 20
    assert host.memory_available() == 50 << 20


def test_no_limit_means_the_whole_machine(files):
    files["/proc/self/cgroup"] = "0::/\n"
    files["/sys/fs/cgroup/memory.max"] = "max"
    assert host.memory_capacity() > 100 << 20


def test_the_older_form_of_limits_is_read_too(files):
    files["/proc/self/cgroup"] = "4:memory:/box\n3:cpu:/box\n"
    files["/sys/fs/cgroup/memory/box/memory.limit_in_bytes"] = str(64 << 20)
    files["/sys/fs/cgroup/memory/box/memory.usage_in_bytes"] = str(64 << 20)
    files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712"
    files["/sys/fs/cgroup/memory/memory.usage_in_bytes"] = str(1 << 30)
    assert host.memory_capacity() == 64 << 20
    assert host.memory_available() == 0


def test_pressure_is_a_share(files):
    files["/proc/pressure/cpu"] = "some avg10=97.81 avg60=80.0 avg300=40.0 total=1\nfull avg10=0.00 total=0\n"
    assert host.pressure("cpu") == pytest.approx(0.9781)
    assert host.pressure("io") == 0.0


def test_the_processor_has_a_name(files):
    files["/proc/cpuinfo"] = "processor : 0\nmodel name\t: A Fast One\n"
    assert host.processor_name() == "A Fast One"


def test_sizes_are_read_with_their_unit():
    assert (host._sized("32768K\n"), host._sized("2M"), host._sized("77")) == (32 << 20, 2 << 20, 77)


def test_cores_are_those_this_process_may_use():
    assert host.cores() == len(os.sched_getaffinity(0))


def test_a_folder_that_is_not_there_has_no_space():
    assert host.free_space("/no/such/folder") == 0
