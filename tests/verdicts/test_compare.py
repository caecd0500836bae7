import pytest
from msgspec.structs import replace

from netdyno.errors import ComparisonError
from netdyno.records.environment import Environment
from netdyno.records.measured import Interval, Measurement, Split
from netdyno.records.record import Baseline, Plan, Record, Target
from netdyno.records.trial import Stability
from netdyno.verdicts.compare import compare, differences, refuse_unequal

HERE = Environment(
    id="aaaa",
    machine="bench",
    processor="Xeon",
    cores=2,
    memory_bytes=24 * 2**30,
    device="cpu",
    system="Linux 6.1",
    python="3.11.9",
    torch="2.13.0",
    threads=1,
    seed=0,
    flags={"mkldnn": "True"},
    packages={"numpy": "2.1.0", "pillow": "11.0"},
    build="GCC 11\nMKL 2024",
    taken_at="yesterday",
)


def seconds(*samples):
    return Measurement(quantity="q", unit="s", samples=samples)


def recorded(*, step=(0.1, 0.2, 0.3), std=0.02, environment=HERE, name="Digits", **more):
    baseline = Baseline(
        data=seconds(0.01),
        forward=seconds(0.02),
        forward_zeros=seconds(0.02),
        backward=seconds(0.04),
        optimizer=seconds(0.0),
        step=seconds(*step),
        epoch_s=127.0,
        first_batch_s=0.5,
        peak_bytes=1000,
        phases={"forward": Split(running=3.0, waiting=1.0)},
        stability=Stability(over_epochs=Interval(middle=std, low=0.0, high=1.0), over_seeds=None, rounds=6, seeds=1),
    )
    return Record(
        id="r1",
        made_by="netdyno",
        made_at="now",
        command="netdyno baseline",
        target=Target(name=name, source="work.py:Digits", item="image", items_per_step=32, steps_per_epoch=40),
        plan=Plan(),
        environment=environment,
        baseline=replace(baseline, **more),
    )


def test_two_environments_that_differ_in_threads_alone_name_that_key_first():
    found = differences(HERE, replace(HERE, threads=2, id="bbbb", packages={**HERE.packages, "rich": "13"}))
    assert (found[0].key, found[0].a, found[0].b) == ("threads", "1", "2")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"torch": "2.12.0"}, "torch"),
        ({"threads": 2}, "threads"),
        ({"seed": 1}, "seed"),
        ({"machine": "desk"}, "machine"),
        ({"driver": "560"}, "driver"),
        ({"flags": {"mkldnn": "False"}}, "flags.mkldnn"),
        ({"packages": {"numpy": "2.1.0"}}, "packages.pillow"),
        ({"build": "GCC 11\nOpenBLAS"}, "build"),
    ],
)
def test_any_differing_key_refuses_the_comparison_by_name(change, key):
    with pytest.raises(ComparisonError, match=f"`{key}`"):
        refuse_unequal(HERE, replace(HERE, id="bbbb", **change))


def test_the_day_it_was_taken_is_no_difference():
    assert differences(HERE, replace(HERE, taken_at="today")) == ()
    refuse_unequal(HERE, replace(HERE, taken_at="today"))


def test_what_matters_most_comes_first():
    other = replace(HERE, seed=1, torch="2.12.0", machine="desk", packages={}, flags={}, build="other")
    keys = [difference.key for difference in differences(HERE, other)]
    assert keys == ["machine", "torch", "seed", "flags.mkldnn", "packages.numpy", "packages.pillow"]
    assert differences(HERE, other)[3].b == "absent"


def test_a_group_of_keys_can_be_allowed():
    other = replace(HERE, packages={"numpy": "1.26"})
    refuse_unequal(HERE, other, allow=("packages",))
    with pytest.raises(ComparisonError):
        refuse_unequal(HERE, replace(other, seed=4), allow=("packages",))


def test_per_cents_are_worked_out_from_the_raw_samples():
    rows = {row.quantity: row for row in compare(recorded(), recorded(step=(0.1, 0.1, 0.3), epoch_s=89.0, std=0.031))}
    assert rows["epoch"].change == pytest.approx(89 / 127 - 1)
    assert (rows["step"].before, rows["step"].after) == (0.2, 0.1)
    assert rows["step"].change == pytest.approx(-0.5)
    assert rows["throughput"].change == pytest.approx(1.0)
    assert rows["std of validation loss over rounds"].change == pytest.approx(0.55)
    assert rows["share of a step spent running"].before == pytest.approx(0.75)


def test_what_cannot_be_said_has_a_reason():
    rows = {row.quantity: row for row in compare(recorded(), recorded())}
    assert rows["std of validation loss over seeds"].reason == "not measured"
    assert rows["step, 99th percentile"].reason == "fewer than 1000 steps"
    assert rows["optimizer"].reason == "it was 0 before"
    assert rows["optimizer"].change is None


def test_a_hundredth_is_read_off_a_thousand_steps():
    many = tuple(float(i) for i in range(1, 1001))
    rows = {row.quantity: row for row in compare(recorded(step=many), recorded(step=many))}
    assert rows["step, 99th percentile"].before == 990.0


def test_records_of_other_workloads_environments_or_without_baseline_are_refused():
    with pytest.raises(ComparisonError, match="`Digits` and `Words` may not be compared"):
        compare(recorded(), recorded(name="Words"))
    with pytest.raises(ComparisonError, match="`threads`"):
        compare(recorded(), recorded(environment=replace(HERE, threads=4)))
    with pytest.raises(ComparisonError, match="nothing to compare"):
        compare(recorded(), replace(recorded(), baseline=None))
