"""Every style of training script that people write is attached to, counted, split, stopped, and left as it is."""

import functools
import importlib.util
import math
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from netdyno.scripts.launch import Ride, ride
from netdyno.targets.script import Script, parse

STYLES = Path(__file__).parent / "styles"
# Whoever ends by itself is never killed early on a busy machine; who is done sooner costs nothing more.
GRACE_S = 120.0
PLAIN = "data zero_grad fwd bwd step0"
PROGRAM = "#!{python}\nimport sys\nfrom pocket.train import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


class Style(NamedTuple):
    """One way to write a training script, and what its usual update looks like from outside.

    `event` is None where no update is the usual one. `words` start the style; its name is the file otherwise.
    Those that are `quick` stand for one mechanism each in every run of the suite; all others are `slow`.
    """

    name: str
    event: str | None = PLAIN
    counted_by: str = "optimizer"
    cycle: int | None = 1
    needs: str | None = None
    words: tuple[str, ...] = ()
    training: int = 1  # processes that train
    scaled: float = 1.0  # what its scaler multiplies the loss by
    quick: bool = False
    updates: int = 12  # more where a period is long, or where it takes a while to tell what an update is


TABLE = (
    Style("plain_mlp", "sync data zero_grad fwd bwd step0", quick=True),
    Style("cnn_pillow", "data fwd zero_grad bwd step0"),
    Style("accumulation", f"sched zero_grad {'fwd bwd sync ' * 4}clip step0", quick=True),
    Style("gan", "zero_grad fwd bwd step1", cycle=2, quick=True),
    Style("wgan", "fwd*4 grad zero_grad bwd step1", cycle=6, updates=30),
    Style("lbfgs", f"sync {'zero_grad fwd bwd ' * 5}step0", quick=True),
    Style("manual_sgd", "zero_grad fwd bwd", counted_by="backward", updates=30, quick=True),
    Style("autograd_grad", "fwd grad step0"),
    Style("lightning_module", "sched data fwd zero_grad bwd clip step0", needs="lightning"),
    Style("fabric_loop", "zero_grad data fwd bwd clip sync step0", needs="lightning"),
    Style("hf_trainer", event=None, needs="transformers"),
    Style("accelerate_loop", "sched zero_grad data fwd bwd data fwd bwd clip step0", needs="accelerate"),
    Style("skorch_net", "sync data zero_grad fwd bwd step0", needs="skorch"),
    Style("fastai_learner", event=None, counted_by="backward", needs="fastai"),
    Style("pocket", words=("python", "-m", "pocket.train")),
    Style("pocket-train", words=("bin/pocket-train", "--epochs", "4")),
    Style("ddp_gloo", words=("torchrun", "--nproc_per_node=2", "ddp_gloo.py"), training=2),
    Style("hogwild", training=2),
    Style("spawned", "fwd zero_grad bwd step0"),
    Style("compiled", "zero_grad fwd bwd step0"),
    Style("reinforce", event=None, cycle=None),
    Style("amp_scaler", "data zero_grad fwd bwd unscale clip sync step0", scaled=1024.0, quick=True),
    Style("threaded", "sync zero_grad fwd bwd step0"),
    Style("home_made_optimizer", "fwd bwd", counted_by="backward", updates=30),
    Style("two_tasks", "fwd zero_grad bwd*2 step0"),
    Style("iterable_stream"),
    Style("fault_eval_with_gradients"),
    Style("fault_unshuffled"),
    Style("fault_histograms"),
    Style("fault_two_evaluations", "eval zero_grad fwd bwd step0"),
    Style("fault_loader_rebuilt"),
    Style("fault_clip_before_unscale", "data zero_grad fwd bwd clip unscale sync step0", scaled=65536.0),
    Style("fault_unreached"),
)
NAMES = [style.name for style in TABLE]
# Nothing that is called in it says where an update ends.
FUNCTIONAL = Style("functional", updates=100)
# Two processes write into the same weights whenever they come to it: no two runs are alike, watched or not.
ALIKE = tuple(style for style in TABLE if style.name != "hogwild")


def laid_out(style: Style, folder: Path) -> Script:
    """The style in a folder of its own, started as its author would start it."""
    if not style.words:
        shutil.copy(STYLES / f"{style.name}.py", folder)
        return parse(f"{style.name}.py", cwd=folder)
    shutil.copytree(STYLES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    program = folder / "bin" / "pocket-train"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    # Programs of this environment, which need not be the one on PATH.
    beside = {"python": sys.executable, "torchrun": str(Path(sys.executable).with_name("torchrun"))}
    return parse(None, (beside.get(style.words[0], style.words[0]), *style.words[1:]), cwd=folder)


@functools.cache
def ridden(style: Style, *, watch: bool) -> Ride:
    """One ride, as every test here looks at it."""
    with tempfile.TemporaryDirectory() as folder:
        script = laid_out(style, Path(folder))
        return ride(script, updates=style.updates, losses=True, watch=watch, hz=20.0, grace_s=GRACE_S)


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    # The console script finds its package as an installed one would be found.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(STYLES), os.environ.get("PYTHONPATH")])))


def available(style: Style) -> Style:
    if style.needs is not None and importlib.util.find_spec(style.needs) is None:
        pytest.skip(f"{style.name} needs the package {style.needs}, which is not installed")
    return style


def of_each(styles):
    return pytest.mark.parametrize(
        "style",
        [pytest.param(style, id=style.name, marks=() if style.quick else pytest.mark.slow) for style in styles],
    )


def test_every_script_in_the_folder_stands_in_the_table():
    assert {file.stem for file in STYLES.glob("*.py")} == {
        *(name for name in NAMES if not name.startswith("pocket")),
        FUNCTIONAL.name,
    }


@of_each(TABLE)
def test_it_is_attached_and_stops_at_exactly_the_update_that_was_asked_for(style):
    seen = ridden(available(style), watch=True)
    trained = [process for process in seen.stream.processes if process.updates]
    ends = [(process.stopped.reason, process.updates) for process in trained]
    assert ends == [("updates", style.updates)] * style.training, (seen.reason, seen.words, seen.stream.troubles)


@of_each(TABLE)
def test_those_aboard_met_no_trouble(style):
    seen = ridden(available(style), watch=True)
    assert (seen.stream.troubles, seen.stream.training.tick.troubles) == ((), ())


@of_each(TABLE)
def test_an_update_is_counted_by_what_makes_one(style):
    tick = ridden(available(style), watch=True).stream.training.tick
    assert (tick.counted_by, tick.cycle) == (style.counted_by, style.cycle)


@of_each([style for style in TABLE if style.event is not None])
def test_its_usual_update_reads_as_its_author_wrote_it(style):
    events = ridden(available(style), watch=True).stream.training.tick.events
    assert max(events, key=events.get) == style.event


@of_each(TABLE)
def test_its_phases_sum_to_the_wall_exactly(style):
    tick = ridden(available(style), watch=True).stream.training.tick
    parts = math.fsum(part for phase in tick.phases.values() for part in phase)
    # The story is written in decimals: the last of them may be rounded.
    assert parts == pytest.approx(tick.wall_s, abs=1e-6)


@of_each(ALIKE)
def test_its_losses_are_to_the_last_bit_those_of_a_run_that_nobody_watches(style):
    watched, bare = (ridden(available(style), watch=watch).stream.losses for watch in (True, False))
    assert len(watched) == style.updates
    # Who only counts hears the loss as a scaler left it: a power of two apart, which moves no bit of the fraction.
    assert bare in (watched, tuple(loss * style.scaled for loss in watched))


@pytest.mark.slow
def test_a_purely_functional_loop_is_counted_by_its_forwards_or_said_to_have_no_updates():
    seen = ridden(FUNCTIONAL, watch=True)
    tick = seen.stream.training.tick
    assert (tick.counted_by, seen.stream.updates, seen.reason) in (("forward", 100, "updates"), ("time", 0, "ended"))
    assert seen.stream.troubles == ()
