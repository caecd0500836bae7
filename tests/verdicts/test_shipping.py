"""Who is shipped: the quickest that surely keeps the objective, and a reason where somebody else would have been quicker."""

from netdyno.records.deployment import Accuracy, Built, Candidate, Latency, Rung, ShipPlan
from netdyno.records.measured import Interval, Measurement
from netdyno.records.trial import Change, Trial
from netdyno.verdicts import shipping
from netdyno.verdicts.slo import parse

PLAN = ShipPlan(objective=parse("p99<=15ms"), max_drop=0.005)


def candidate(name, seconds, *, precision="fp32", drop=None, limit=0.005, memory=100, p99=None, plan=PLAN, spread=0.01):
    samples = tuple(seconds * (1 + spread * (at % 5 - 2)) for at in range(15))
    single = [seconds] * 1980 + [p99 or seconds] * 20 if p99 is None else [seconds] * 1900 + [p99] * 100
    made = Candidate(
        change=Change(id=name),
        precision=precision,
        stage="measured",
        built=Built(key=name, bytes=10),
        parity=(Rung(name="reloaded", rows=64, batch=1, worst=1e-6, sqnr_db=120.0, flips=0.0, holds=True, says="rounding"),),
        accuracy=accuracy(drop, limit) if drop is not None else None,
        trial=Trial(
            change=Change(id=name), against=(), form="processes", numerics="reordered",
            control=Measurement(quantity="answer", unit="s", samples=(0.03,) * 15),
            treatment=Measurement(quantity="answer", unit="s", samples=samples),
        ),
        speedup=Interval(middle=0.03 / seconds, low=0.03 / seconds * (1 - spread), high=0.03 / seconds * (1 + spread)),
        latency=(Latency(rows=1, samples=tuple(single), percentiles=shipping.percentiles(single, plan.objective)),),
        memory_bytes=memory,
    )  # fmt: skip
    import msgspec

    return msgspec.structs.replace(made, met=shipping.judged(made, plan))


def accuracy(drop, limit):
    low, high = drop
    decision = "holds" if high <= limit else "broken" if low > limit else "cannot tell"
    return Accuracy(
        rows=600, control=0.97, treatment=0.97 - low, drop=Interval(middle=(low + high) / 2, low=low, high=high),
        limit=limit, decision=decision, needs=2400 if decision == "cannot tell" else None, says=f"{decision} on 600 rows",
    )  # fmt: skip


def test_the_quickest_that_keeps_everything_wins():
    there = [candidate("slow", 0.010), candidate("quick", 0.002), candidate("between", 0.005)]
    assert shipping.choose(there, PLAN).winner == 1


def test_a_quicker_one_that_loses_accuracy_is_left():
    there = [candidate("fp32", 0.010), candidate("int8", 0.001, precision="int8", drop=(0.02, 0.04))]
    assert shipping.choose(there, PLAN).winner == 0


def test_a_quicker_one_that_cannot_be_judged_is_left_and_named():
    there = [candidate("fp32", 0.010), candidate("int8", 0.001, precision="int8", drop=(0.0, 0.01))]
    found = shipping.choose(there, PLAN)
    assert found.winner == 0
    assert any("int8 would be better, and is not taken" in says for says in found.says)


def test_of_two_that_cannot_be_told_apart_the_one_with_more_bits_is_shipped():
    there = [
        candidate("int8", 0.00200, precision="int8", drop=(-0.001, 0.001)),
        candidate("bf16", 0.00203, precision="bf16", drop=(-0.001, 0.001)),
    ]
    found = shipping.choose(there, PLAN)
    assert found.winner == 1
    assert "not surely quicker" in found.says[0]


def test_a_percentile_of_the_objective_that_is_broken_leaves_it_out():
    there = [candidate("tail", 0.002, p99=0.040), candidate("steady", 0.005)]
    assert shipping.choose(there, PLAN).winner == 1


def test_where_nothing_keeps_the_objective_the_nearest_is_named_with_what_it_breaks():
    there = [candidate("a", 0.050, p99=0.060), candidate("b", 0.020, p99=0.022)]
    found = shipping.choose(there, PLAN)
    assert found.winner is None
    assert "nearest is b" in found.says[1]
    assert "P99" in found.says[1]


def test_nothing_measured_is_no_winner():
    assert shipping.choose([Candidate(change=Change(id="a"), failed="no compiler")], PLAN).winner is None


def test_fp32_without_validation_data_is_judged_by_parity_and_int8_cannot_be():
    fp32 = candidate("fp32", 0.01)
    int8 = candidate("int8", 0.01, precision="int8")
    assert fp32.met[0].ok is True
    assert int8.met[0].ok is None
    assert "no validation data" in int8.met[0].says


def test_the_front_holds_who_is_beaten_by_nobody():
    there = shipping.front(
        [
            candidate("quick", 0.002, drop=(0.0, 0.004), memory=300),
            candidate("true", 0.010, drop=(0.0, 0.0), memory=300),
            candidate("small", 0.012, drop=(0.0, 0.0), memory=50),
            candidate("worse", 0.013, drop=(0.0, 0.004), memory=400),
        ],
        PLAN,
    )
    assert [one.change.id for one in there if one.on_front] == ["quick", "true", "small"]


def test_one_whose_answers_are_broken_is_on_no_front():
    import msgspec

    broken = candidate("broken", 0.001)
    rung = msgspec.structs.replace(broken.parity[0], holds=False, says="garbage")
    there = shipping.front([msgspec.structs.replace(broken, parity=(rung,)), candidate("good", 0.01)], PLAN)
    assert [one.on_front for one in there] == [False, True]


def test_the_ladder_goes_from_the_module_through_the_precisions():
    control = candidate("eager", 0.03)
    there = [
        candidate("openvino", 0.016),
        candidate("onnx-runtime", 0.018),
        candidate("openvino", 0.0026, precision="bf16", drop=(0.0, 0.001)),
        candidate("openvino", 0.0017, precision="int8", drop=(0.0, 0.001)),
    ]
    steps = shipping.ladder(control, there)
    assert [step.name for step in steps] == ["eager fp32", "openvino fp32", "openvino bf16", "openvino int8"]
    assert steps[0].ratio is None
    assert round(steps[-1].ratio.middle, 1) == 17.6
    assert steps[0].accuracy == 0.97


def test_cpu_time_can_be_what_is_minimised():
    import msgspec

    plan = msgspec.structs.replace(PLAN, minimise="cpu")
    quick = candidate("quick", 0.002)
    hungry = msgspec.structs.replace(quick, latency=(msgspec.structs.replace(quick.latency[0], cpu_s=0.009),))
    frugal = candidate("frugal", 0.004)
    frugal = msgspec.structs.replace(frugal, latency=(msgspec.structs.replace(frugal.latency[0], cpu_s=0.003),))
    assert shipping.choose([hungry, frugal], plan).winner == 1


def test_energy_is_an_upper_bound_so_that_more_than_the_limit_breaks_nothing():
    import msgspec

    plan = ShipPlan(objective=parse("energy<=50mJ"), max_drop=0.005)
    found = {}
    for joules in (0.02, 0.08, None):
        made = msgspec.structs.replace(candidate("one", 0.01), energy_j=joules)
        found[joules] = next(one.ok for one in shipping.judged(made, plan) if one.constraint.quantity == "energy")
    assert found == {0.02: True, 0.08: None, None: None}
