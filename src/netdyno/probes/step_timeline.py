"""Where the time of a training step goes, phase by phase.

Measures:         running, waiting and blocked seconds per step of data, collate, copy, forward, loss, backward,
                  optimizer and log; the wall time of the step by a second pair of readings around all of them, and
                  what that has more as `rest`. On a CUDA device, phases after the copy are told by device events.
Costs:            the steps themselves and some ten clock readings in each, weighed in place.
Leaves no trace:  the subject trains on, and is put back afterwards; loader workers end.
"""

from netdyno.measure.selfcost import Weighed
from netdyno.measure.step import Stepper, turning
from netdyno.measure.stopwatch import Clock, DeviceStopwatch, Stopwatch, between, thread_clock
from netdyno.probes._base import probe, watch_for
from netdyno.records.evidence import StepTimeline
from netdyno.records.measured import Split
from netdyno.targets.subject import Subject

WARMUP = 2  # the first step starts workers and makes optimizer state


@probe
def collect(subject: Subject, *, steps: int = 10, clock: Clock | None = None) -> StepTimeline:
    clock = clock or thread_clock()
    weighed = Weighed(clock)
    watch = watch_for(subject, weighed)
    stepper = Stepper(subject, watch)
    try:
        stepper.take(WARMUP)
        watch.clear()
        weighed.clear()
        with turning(subject):
            before = clock()
            watch.start("data")
            for _ in range(steps):
                stepper.step()
                watch.phase("data")
            watch.stop()
            whole = between(before, clock())
    finally:
        stepper.close()
    return StepTimeline(
        steps=steps,
        step=whole.per(steps),
        phases={name: split.per(steps) for name, split in closed(whole, phases_of(watch)).items()},
        own_overhead_s=weighed.total() / steps,
    )


def phases_of(watch: Stopwatch) -> dict[str, Split]:
    """Phases as the host saw them; where a device did the work, as the device did it.

    The host only queues work for a device, and waits for it at the end.
    """
    if not isinstance(watch, DeviceStopwatch):
        return watch.phases()
    host, device = watch.phases(), watch.device_phases()
    return {
        name: split if name in {"data", "collate", "log"} else Split(running=device.get(name, 0.0))
        for name, split in host.items()
    }


def closed(whole: Split, phases: dict[str, Split]) -> dict[str, Split]:
    """The phases with `rest`, so that they add up to the whole, which was timed apart."""
    named = sum(phases.values(), Split())
    return {
        **phases,
        "rest": Split(
            running=max(0.0, whole.running - named.running),
            waiting=max(0.0, whole.waiting - named.waiting),
            blocked=max(0.0, whole.blocked - named.blocked),
        ),
    }
