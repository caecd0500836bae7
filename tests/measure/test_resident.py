"""Memory as the system sees it, and when growth is a leak."""

import random

import psutil

from netdyno.measure.resident import Level, PeakHeld, _sizes, growth, held, proportional

MIB = 1 << 20


def levels(bytes_at, count=40):
    return [Level(batch, round(bytes_at(batch))) for batch in range(0, count * 10, 10)]


def test_steady_growth_is_certain_and_has_its_slope():
    found = growth(levels(lambda batch: 300 * MIB + 0.1 * MIB * batch))
    assert found.certain
    assert round(found.per_batch / MIB, 3) == 0.1


def test_growth_in_pieces_of_the_allocator_is_certain_too():
    assert growth(levels(lambda batch: 300 * MIB + (0.02 * MIB * batch) // (132 << 10) * (132 << 10))).certain


def test_memory_that_stays_is_no_growth():
    assert growth(levels(lambda _: 300 * MIB)) == (0.0, False)


def test_memory_that_wavers_is_no_growth():
    noise = random.Random(0)
    assert not growth(levels(lambda _: 300 * MIB + noise.uniform(-MIB, MIB))).certain


def test_one_step_up_is_no_growth():
    assert not growth(levels(lambda batch: (300 if batch < 250 else 500) * MIB)).certain


def test_filling_a_cache_at_first_is_no_growth():
    assert not growth(levels(lambda batch: (300 + min(batch, 80)) * MIB)).certain


def test_a_handful_of_looks_proves_nothing():
    assert not growth(levels(lambda batch: batch * MIB, count=8)).certain


def test_pages_of_files_are_left_out():
    lines = ["Rss:   900 kB\n", "Pss:   700 kB\n", "Pss_File:   200 kB\n", "VmFlags: rd\n"]
    assert _sizes(lines) == {"Rss": 900 << 10, "Pss": 700 << 10, "Pss_File": 200 << 10}
    assert held() < psutil.Process().memory_info().rss


def test_a_process_that_is_gone_holds_nothing():
    assert proportional(2**22 + 1) == 0


def test_the_peak_remembers_what_is_already_given_back():
    peak = PeakHeld()
    before = held()
    block = bytearray(64 * MIB)
    block[::4096] = b"x" * len(block[::4096])
    del block
    assert peak() - before > 48 * MIB
    assert held() - before < 48 * MIB
