"""Which cure it names, where it points, and what it keeps silent about."""

import msgspec
import pytest

from netdyno.records.evidence import Layer
from netdyno.rules._roofline import CROWDED, specimen
from netdyno.rules.compute_bound import compute_bound


def found(*, threads=None, **fields):
    timeline, table, ceilings = specimen(flops=8e9, moved=1e8)
    ceilings = msgspec.structs.replace(ceilings, **{k: v for k, v in fields.items() if k == "matmul"})
    table = msgspec.structs.replace(table, **{k: v for k, v in fields.items() if k != "matmul"})
    return compute_bound(timeline, table, ceilings, threads)


def test_it_names_the_faster_precision_and_by_how_much():
    assert "bfloat16 4.0 times as fast as float32" in found().fix


def test_without_a_faster_precision_it_asks_for_fewer_operations():
    assert "fewer operations" in found(matmul={"float32": 1e11}).fix


def test_a_precision_whose_ceiling_is_unknown_is_not_judged():
    assert found(dtype="float64") is None


def test_it_points_at_the_layer_that_computes_most():
    light, heavy = (
        Layer(module=name, kind="Linear", flops=flops, bytes=1.0, seconds=0.01, intensity=flops)
        for name, flops in (("head", 1e6), ("body.0", 1e9))
    )
    assert found(layers=(light, heavy)).where.module == "body.0"


def test_at_best_everything_runs_at_the_best_rate_of_any_precision():
    # 80 of 100 GFLOP/s in float32, 400 in bfloat16.
    assert found().saves.high == pytest.approx(1 - 80 / 400)


def test_threads_that_spin_make_a_small_limit_a_suspicion_only():
    timeline, table, ceilings = specimen(flops=1e9, moved=1e7)
    assert compute_bound(timeline, table, ceilings, CROWDED).confidence == 0.5
