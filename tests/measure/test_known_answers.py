"""Known answers: that they are asked right, and that a wrong instrument fails them."""

import pytest
import torch

from netdyno.measure import known_answers as room
from netdyno.measure.known_answers import KINDS, PHASES, Delay, delayed, known_answers, located
from netdyno.measure.step import Stepper
from netdyno.measure.stopwatch import Reading, Stopwatch
from netdyno.records.measured import Split, Turn


class Passing:
    """Time passes only where a delay is: spinning and sleeping move it."""

    def __init__(self, monkeypatch):
        self.wall = self.ran = 0.0
        monkeypatch.setattr(room, "spin", self.spin)
        monkeypatch.setattr(room.time, "sleep", self.sleep)

    def spin(self, seconds):
        self.wall += seconds
        self.ran += seconds

    def sleep(self, seconds):
        self.wall += seconds

    def __call__(self):
        return Reading(round(self.wall * 1e9), round(self.ran * 1e9), 0)


def test_every_delay_is_found_in_its_phase_as_its_kind_and_in_size(monkeypatch):
    clock = Passing(monkeypatch)
    answers = known_answers(watch=lambda: Stopwatch(clock), pairs=3)
    assert [(answer.phase, answer.kind) for answer in answers] == [(p, k) for p in PHASES for k in KINDS]
    assert all(answer.right for answer in answers)
    assert all(answer.error < 1e-6 for answer in answers)


def test_an_instrument_that_cannot_tell_blocked_from_running_fails(monkeypatch):
    clock = Passing(monkeypatch)
    answers = known_answers(watch=lambda: Stopwatch(lambda: Reading(clock().wall, clock().wall, 0)), pairs=3)
    assert all(answer.right == (answer.kind == "running") for answer in answers)


def test_an_instrument_that_runs_slow_fails(monkeypatch):
    clock = Passing(monkeypatch)
    slow = lambda: Reading(*(round(0.8 * value) for value in clock()))
    assert not any(answer.right for answer in known_answers(watch=lambda: Stopwatch(slow), pairs=3))


def test_the_real_instrument_finds_real_delays():
    phases = [answer.found_phase for answer in known_answers(pairs=3, injected_s=0.02)]
    # Sizes are the benchmark's matter: a test on a busy machine asserts no time.
    assert phases == [phase for phase in PHASES for _ in KINDS]


def test_a_delay_is_taken_only_in_its_phase_and_only_while_it_is_on(monkeypatch):
    clock = Passing(monkeypatch)
    delay = Delay(0.01)
    stepper = Stepper(delayed(delay, 0), Stopwatch(clock))
    assert stepper.take(1).time.wall == 0
    with delay.on("backward", "blocked"):
        taken = stepper.take(2)
    assert taken.phases["backward"].blocked == pytest.approx(0.02)
    assert taken.time.wall == pytest.approx(0.02)
    assert stepper.take(1).time.wall == 0


def turn(**seconds):
    phases = {name: Split(running=running) for name, running in seconds.items()}
    return Turn(steps=2, time=sum(phases.values(), Split()), phases=phases)


def test_one_disturbed_pair_does_not_move_the_answer():
    late = [turn(data=0.02, forward=0.01) for _ in range(5)] + [turn(data=0.02, forward=5.0)]
    early = [turn(data=0.0, forward=0.01)] * 6
    assert located(late, early) == ("data", "running", pytest.approx(0.01))


def test_threads_and_random_state_are_left_alone(monkeypatch):
    clock = Passing(monkeypatch)
    torch.set_num_threads(2)
    before = torch.get_rng_state()
    known_answers(watch=lambda: Stopwatch(clock), pairs=1)
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.get_rng_state(), before)
