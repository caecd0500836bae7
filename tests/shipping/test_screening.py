"""What is left out of a search, and on what ground: something measured here, with the reason kept."""

from types import SimpleNamespace

from msgspec.structs import replace

from netdyno.records.deployment import Built, Candidate, ShipPlan
from netdyno.records.measured import Interval
from netdyno.records.trial import Change
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes.openvino import Openvino
from netdyno.shipping import screening


def seen(runtime, factor, precision="fp32", seconds=3.0):
    return Candidate(
        change=Change(id=runtime, settings={"precision": precision}),
        precision=precision,
        built=Built(key=runtime, seconds=seconds),
        speedup=Interval(middle=factor, low=0.9 * factor, high=1.1 * factor),
    )


def journey(*, left=600.0, exhaustive=False, **prices):
    return SimpleNamespace(plan=ShipPlan(exhaustive=exhaustive), prices=prices, left=lambda: left)


def waiting(runtime, precision="fp32"):
    return Candidate(change=Change(id=runtime, settings={"precision": precision}), precision=precision)


def test_int8_that_lost_to_its_own_float_in_two_runtimes_does_not_pay():
    there = [
        seen("onnx-runtime", 5.0), seen("onnx-runtime", 3.0, "int8"),
        seen("openvino", 5.5, "bf16"), seen("openvino", 4.8, "int8"),
    ]  # fmt: skip
    why = screening.not_worth_it(journey(), there, waiting("aot-inductor", "int8"))
    assert why.startswith("int8 does not pay here: onnx-runtime 0.60 times as fast as its own fp32")


def test_one_runtime_that_loses_is_no_ground_and_one_that_wins_is_an_objection():
    lost = [seen("onnx-runtime", 5.0), seen("onnx-runtime", 3.0, "int8")]
    assert screening.not_worth_it(journey(), lost, waiting("openvino", "int8")) is None
    won = [*lost, seen("openvino", 3.0), seen("openvino", 9.0, "int8")]
    assert screening.not_worth_it(journey(), won, waiting("aot-inductor", "int8")) is None


def test_a_dear_way_with_the_kernels_of_one_that_is_far_behind_is_left():
    there = [seen("openvino", 6.0), seen("compiled", 1.5)]
    dear = waiting("aot-inductor")
    why = screening.not_worth_it(journey(**{dear.change.label: 60.0}), there, dear)
    assert why == "it runs the same kernels as compiled, which was 4.0 times behind the best"


def test_a_dear_way_whose_kin_is_near_is_tried():
    there = [seen("openvino", 6.0), seen("compiled", 5.0)]
    dear = waiting("aot-inductor")
    assert screening.not_worth_it(journey(**{dear.change.label: 60.0}), there, dear) is None


def test_a_dear_way_that_would_need_a_larger_gain_than_any_seen_here_is_left():
    there = [
        seen("openvino", 2.0), seen("openvino", 6.0, "int8"), seen("onnx-runtime", 2.0), seen("onnx-runtime", 5.0, "int8"),
        seen("executorch", 1.5), seen("compiled", 1.9),
    ]  # fmt: skip
    for runtime, behind in (("executorch", "4.0"), ("aot-inductor", "3.2")):  # the last by its kin
        dear = waiting(runtime, "int8")
        why = screening.not_worth_it(journey(**{dear.change.label: 60.0}), there, dear)
        assert why == (
            f"its fp32 is {behind} times behind the best, and int8 made none more than 3.0 times as fast here (openvino)"
        )
    near = [*there, seen("executorch", 2.1)]
    assert screening.not_worth_it(journey(**{dear.change.label: 60.0}), near, waiting("executorch", "int8")) is None


def test_what_a_precision_brings_is_not_known_from_one_runtime():
    there = [seen("openvino", 2.0), seen("openvino", 6.0, "int8"), seen("executorch", 1.5)]
    dear = waiting("executorch", "int8")
    assert screening.not_worth_it(journey(**{dear.change.label: 60.0}), there, dear) is None


def test_the_gentler_settings_wait_until_the_bolder_ones_lose():
    bold, gentle = Openvino("int8"), Openvino("int8", "mixed")
    waits = Candidate(change=runtimes.written(gentle), precision="int8")
    works = replace(seen("openvino", 6.0, "int8"), change=runtimes.written(bold))
    why = screening.not_worth_it(journey(), [works], waits)
    assert why == "no quicker than openvino(precision=int8, preset=performance): it waits until that loses too much"
    assert screening.not_worth_it(journey(exhaustive=True), [works], waits) is None
    unlike = replace(works, failed="other answers", speedup=None)
    assert screening.not_worth_it(journey(), [unlike], waits) is None


def test_what_would_take_more_than_half_of_what_is_left_is_not_begun():
    dear = waiting("aot-inductor")
    why = screening.not_worth_it(journey(left=50.0, **{dear.change.label: 60.0}), [], dear)
    assert why == "it takes about 60 s, and 50 s of the budget are left"


def test_prices_follow_the_pace_of_what_was_built():
    slow = seen("openvino", 2.0, seconds=30.0)
    dear = waiting("compiled")
    prices = {slow.change.label: 3.0, dear.change.label: 25.0}
    why = screening.not_worth_it(journey(left=300.0, **prices), [slow], dear)
    assert why == "it takes about 250 s, and 300 s of the budget are left"


def test_an_exhaustive_search_leaves_nothing_out():
    there = [
        seen("onnx-runtime", 5.0), seen("onnx-runtime", 3.0, "int8"),
        seen("openvino", 5.5, "bf16"), seen("openvino", 4.8, "int8"),
    ]  # fmt: skip
    assert screening.not_worth_it(journey(left=0.0, exhaustive=True), there, waiting("aot-inductor", "int8")) is None
