"""A script or a workload as an ordinary training run, with or without the changes that a run kept."""

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

from netdyno.cli._declare import Option
from netdyno.cli._endings import DONE
from netdyno.cli._options import STORE, AsJson, Progress, ProgressForm, Seed, StoreFolder, as_json
from netdyno.cli._output import put
from netdyno.cli._progress import listening, loading
from netdyno.cli._scripts import Module, Target, Words, script_named
from netdyno.errors import NetdynoError
from netdyno.progress import Event, Listener
from netdyno.records.trial import Change
from netdyno.store import Store

if TYPE_CHECKING:
    from netdyno.targets.script import Script


class Ran(NamedTuple):
    """What a plain run took: seconds by the wall clock from the first batch asked for to the last update."""

    target: str
    changes: tuple[str, ...]
    steps: int
    warmup: int
    wall_s: float
    step_s: float
    items_per_s: float
    last_loss: float


def run(
    *,
    reference: Target = None,
    words: Words = (),
    module: Module = None,
    recipe: Annotated[str | None, Option(metavar="RUN", help="Apply the changes that this run kept.")] = None,
    steps: Annotated[int, Option(least=1, help="Training steps to time.")] = 200,
    warmup: Annotated[int, Option(least=0, help="Training steps before the clock starts.")] = 10,
    seed: Seed = 0,
    store: StoreFolder = STORE,
    json: AsJson = False,
    progress: Progress = ProgressForm.AUTO,
) -> int:
    """Train under the changes that a run kept.

    A workload trains for some steps and is timed by the wall clock, as an ordinary program would. A script runs to its
    own end, in its own folder, with its own output and exit status: `netdyno run --recipe last train.py -- --epochs 3`.
    """
    kept = Store(store).load(recipe).recipe if recipe else ()
    script = script_named(reference, words, module)
    if script is not None:
        return _ridden(script, kept)
    if reference is None:
        raise NetdynoError(
            "there is nothing to run",
            because="neither a script nor a workload was given",
            hint="`netdyno run --recipe last train.py -- --epochs 3`",
        )
    with listening(progress) as listener:
        loading(listener)
        _begin_again_under(kept)
        ran = timed(reference, kept, steps=steps, warmup=warmup, seed=seed, listener=listener)
    put(as_json(ran) if json else sentence(ran))
    return DONE


def _ridden(script: "Script", recipe: tuple[Change, ...]) -> int:
    """Run a script as its author would, with the changes made from outside; the answer is its own exit status."""
    import signal
    import subprocess
    import tempfile

    from netdyno.scripts.launch import opened

    with tempfile.TemporaryDirectory(prefix="netdyno-run-") as folder:
        argv, environment = opened(script.argv, recipe, folder=folder)
        # An interrupt is the script's to answer: it goes to both of us, and we wait.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            status = subprocess.Popen(
                argv,
                cwd=script.cwd,
                env=environment,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
            ).wait()
        finally:
            signal.signal(signal.SIGINT, before)
    return status if status >= 0 else 128 - status


def _begin_again_under(recipe: tuple[Change, ...]) -> None:
    """Start this command anew when a change needs environment variables that are read as Python starts."""
    from netdyno.interventions._base import environment_of

    wanted = {key: value for key, value in environment_of(recipe).items() if os.environ.get(key) != value}
    if wanted:
        os.execve(sys.executable, [sys.executable, "-m", "netdyno", *sys.argv[1:]], {**os.environ, **wanted})  # noqa: S606


def timed(reference: str, recipe: tuple[Change, ...], *, steps: int, warmup: int, seed: int, listener: Listener) -> Ran:
    """Step the workload under a recipe. The clock is one that no probe touches."""
    from netdyno.interventions._base import applied
    from netdyno.measure.step import Stepper
    from netdyno.measure.stopwatch import stopwatch_for
    from netdyno.targets import workload as workloads

    workload = workloads.load(reference)
    with applied(recipe, workload.fresh(seed)) as subject:
        stepper = Stepper(subject, stopwatch_for(subject.device))
        with contextlib.closing(stepper):
            listener(Event("warming up"))
            if warmup:
                stepper.take(warmup)
            listener(Event(f"training for {steps} steps"))
            turn = stepper.take(steps)
    return Ran(
        target=reference,
        changes=tuple(change.label for change in recipe),
        steps=steps,
        warmup=warmup,
        wall_s=turn.time.wall,
        step_s=turn.time.wall / steps,
        items_per_s=steps * workload.batch_size / turn.time.wall,
        last_loss=turn.losses[-1],
    )


def sentence(ran: Ran) -> str:
    """The run in one sentence."""
    under = f" with {', '.join(ran.changes)}" if ran.changes else ""
    return (
        f"{ran.target}{under}: {ran.steps} steps in {ran.wall_s:.2f} s, {ran.step_s * 1e3:.2f} ms each, "
        f"{ran.items_per_s:.0f} items a second; last loss {ran.last_loss:.4g}"
    )
