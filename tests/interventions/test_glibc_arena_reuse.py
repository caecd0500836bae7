"""Freed memory that stays in the process: the settings take hold, and are proposed where steps free much."""

import os
import platform
import subprocess
import sys

import pytest

from interventions.specimens import WORDS, account, facts, timeline
from netdyno.interventions import glibc_arena_reuse as module
from netdyno.interventions.glibc_arena_reuse import GlibcArenaReuse

LOOP = """
import resource, torch
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(10_000_000) + torch.ones(10_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
torch.set_num_threads(1)
faults()
print(faults())
"""


def faults(environment):
    clean = {name: value for name, value in os.environ.items() if "MALLOC" not in name and name != "GLIBC_TUNABLES"}
    done = subprocess.run(
        [sys.executable, "-c", LOOP], env=clean | environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")
def test_pages_are_faulted_in_once_and_not_at_every_step():
    # Blocks of 40 MB: 10,000 pages each, three of them in each of 20 rounds. Above 32 MB glibc never adapts by itself.
    assert faults({}) > 100_000
    assert faults(GlibcArenaReuse().environment) < 1000


def test_huge_pages_are_asked_for_beside_what_was_asked_for_before(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0:glibc.malloc.tcache_count=3")
    tunables = GlibcArenaReuse(huge_pages=True).environment["GLIBC_TUNABLES"]
    assert tunables == "glibc.malloc.tcache_count=3:glibc.malloc.hugetlb=1"
    assert "GLIBC_TUNABLES" not in GlibcArenaReuse().environment


def test_what_a_step_frees_bounds_the_prediction():
    step = timeline(forward=30, backward=60, optimizer=10)
    much = GlibcArenaReuse().predicts(facts(step, account(activations=80 * 10**6)))
    assert 0.03 < much.high <= 0.4
    assert "MB" in much.why
    nothing = account(activations=10**5, gradients=10**5, workspace=0, batch=0)
    assert GlibcArenaReuse().predicts(facts(step, nothing)) is None
    assert GlibcArenaReuse().predicts(facts(step)) is None


def test_it_refuses_other_allocators_and_settings_that_are_there(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    for name in ("LD_PRELOAD", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    subject = WORDS.fresh(0)
    assert GlibcArenaReuse().refuses(subject) is None
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libjemalloc.so.2")
    assert "jemalloc" in GlibcArenaReuse().refuses(subject)
    monkeypatch.delenv("LD_PRELOAD")
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")
    assert "already" in GlibcArenaReuse().refuses(subject)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert "settings of glibc" in GlibcArenaReuse().refuses(subject)


def test_huge_pages_are_offered_only_where_the_kernel_hands_them_out(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    for name in ("LD_PRELOAD", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    subject = WORDS.fresh(0)
    monkeypatch.setattr(module, "_has_huge_pages", lambda _: False)
    assert GlibcArenaReuse().settings(subject, {}) == (GlibcArenaReuse(),)
    monkeypatch.setattr(module, "_has_huge_pages", lambda _: True)
    assert GlibcArenaReuse().settings(subject, {}) == (GlibcArenaReuse(), GlibcArenaReuse(huge_pages=True))
