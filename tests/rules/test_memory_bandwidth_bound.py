"""How much of a step bytes rule, and where."""

import msgspec
import pytest

from netdyno.records.evidence import Layer
from netdyno.rules._roofline import specimen
from netdyno.rules.memory_bandwidth_bound import memory_bandwidth_bound


def found(*, moved=6e8, **fields):
    timeline, table, ceilings = specimen(flops=1e8, moved=moved)
    return memory_bandwidth_bound(timeline, msgspec.structs.replace(table, **fields), ceilings, None)


def test_it_points_at_the_layer_that_moves_most():
    light, heavy = (
        Layer(module=name, kind="ReLU", flops=0.0, bytes=moved, seconds=0.01, intensity=0.0)
        for name, moved in (("head", 1e6), ("body.1", 1e9))
    )
    assert found(layers=(light, heavy)).where.module == "body.1"


def test_bytes_from_a_cache_never_rule_more_than_the_whole_step():
    finding = found(moved=5e9)
    assert finding.because["share_of_step"] == 1.0
    assert finding.saves.high <= 1.0


def test_a_step_without_timed_operators_is_not_judged():
    assert found(compute_seconds=0.0) is None


def test_arithmetic_that_would_remain_is_not_promised():
    # A sixth of a FLOP per byte where ten balance: that much of the share stays.
    assert found().saves.high == pytest.approx(0.6 * (1 - (1e8 / 6e8) / 10))
