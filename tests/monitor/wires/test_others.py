import pytest

from netdyno.monitor.wires import memory
from netdyno.monitor.wires.allowance import Allowance
from netdyno.monitor.wires.memory import EVERY_S, SAMPLES, Left, Memory
from netdyno.monitor.wires.scaling import Skips
from netdyno.monitor.wires.stalls import Wait
from netdyno.monitor.wires.validation import Validation, is_loss

GIB = 1 << 30


def runs_out(levels, limit=64 * GIB):
    """What is told at the end of a series of samples."""
    wire = Memory()
    found = None
    for at, level in enumerate(levels):
        found = wire.judge(at * EVERY_S, Left(int(level), limit))
    return found


def falling(start, per_sample, length=SAMPLES):
    return [start - per_sample * at for at in range(length)]


def test_memory_that_falls_to_its_end_within_minutes_is_told_with_the_minutes():
    found = runs_out(falling(5 * GIB, GIB // 8))
    assert found.minutes == pytest.approx((5 - 23 / 8) * GIB / (GIB / 8 / EVERY_S) / 60, rel=0.01)


@pytest.mark.parametrize(
    "levels",
    [
        falling(40 * GIB, GIB // 2),  # much is left
        falling(5 * GIB, GIB // 100),  # it lasts for hours
        [5 * GIB] * SAMPLES,
        [(3 + at % 2) * GIB for at in range(SAMPLES)],  # a wave
        [4 * GIB - min(at, 10) * GIB // 8 for at in range(SAMPLES)],  # a cache that is full
        falling(5 * GIB, GIB // 8, SAMPLES // 2),  # too short to know
    ],
)
def test_memory_that_lasts_is_not_told(levels):
    assert runs_out(levels) is None


def test_the_limit_of_the_group_counts_and_files_that_were_read_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    monkeypatch.setattr(memory, "MACHINE", tmp_path / "meminfo")
    (tmp_path / "memory.max").write_text(f"{8 * GIB}\n")
    (tmp_path / "memory.current").write_text(f"{7 * GIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {2 * GIB}\n")
    (tmp_path / "meminfo").write_text(f"MemTotal: {64 << 20} kB\nMemAvailable: {60 << 20} kB\n")
    assert memory.left() == Left(3 * GIB, 8 * GIB)
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.left() == Left(60 * GIB, 64 * GIB)


def waits(signs, least=30.0):
    wire = Wait(least)
    return [wire.judge(sign, 1.0) is not None for sign in signs]


def test_a_wait_is_a_stall_when_it_is_long_and_much_longer_than_any_before():
    assert waits([0] * 31 + [0])[-1]
    assert not any(waits([*([0] * 10), *([1] * 90)]))  # nine seconds were usual: ninety are not yet ten times that
    assert waits([*([0] * 10), *([1] * 100)])[-1]
    assert waits([*([0] * 5), *([1] * 60)])[-1]
    assert not any(waits(range(1000)))


def test_who_waits_for_nothing_does_not_stall():
    wire = Wait(30.0)
    assert not any(wire.judge(0, 1.0, waits=False) for _ in range(1000))


def test_skips_that_end_are_normal_and_those_that_do_not_are_told():
    def told(pattern):
        skips = Skips()
        return [found for skipped in pattern if (found := skips.judge(skipped=skipped))]

    assert not told([True] * 30 + [False] * 5000)  # finding the scale
    assert not told([at % 2000 == 0 for at in range(10_000)])  # probing a larger one
    assert not told([at % 4 == 0 for at in range(1000)])  # an eager prober
    assert "in a row" in told([False] * 100 + [True] * 40)[0]
    assert "does not end" in told([at % 2 == 0 for at in range(400)])[0]


def diverges(values):
    wire = Validation()
    return [at for at, value in enumerate(values) if wire.judge(value) is not None]


def test_an_evaluation_diverges_when_it_stays_far_above_everything_before():
    assert diverges([1.0, 0.6, 0.5, 0.45, 0.5, 8.0, 60.0, 50.0])[0] == 7
    assert diverges([1.0, 0.6, float("nan")]) == [2]


@pytest.mark.parametrize(
    "values",
    [
        [2.3, 1.0, 0.5, 0.45, 0.5, 0.6, 0.8, 1.2, 1.8, 2.5, 3.5, 4.5],  # over-fitting, with labels that are wrong
        [1.0, 0.6, 0.5, 40.0, 0.5, 0.45, 0.4],  # one bad evaluation
        [0.5, 30.0, 1.0, 25.0, 0.8, 28.0],  # noise
        [-1.0, -2.0, 5.0, -3.0, 50.0, 60.0, 70.0],  # a bound of a likelihood
        [float(at) for at in range(20)],
    ],
)
def test_over_fitting_and_noise_do_not_diverge(values):
    assert diverges(values) == []


def test_only_losses_are_better_when_they_are_less():
    assert [name for name in ("loss", "val/loss", "accuracy", "val_rmse", "iou", "terror") if is_loss(name)] == ["loss", "val/loss", "val_rmse"]  # fmt: skip


def test_a_cheap_look_is_taken_at_each_update_and_a_dear_one_as_often_as_its_share_allows():
    def share_of(cost_ns, update_ns, updates=2000):
        allowance, looks = Allowance(0.002), 0
        for at in range(updates):
            if allowance.affords(at * update_ns, at):
                allowance.spent(cost_ns)
                looks += 1
        return looks / updates, allowance.spent_ns / (updates * update_ns)

    assert share_of(8_000, 200_000)[0] == 1.0
    looks, spent = share_of(5_000_000, 100_000_000)
    assert 0.02 < looks < 0.06
    assert spent < 0.003
