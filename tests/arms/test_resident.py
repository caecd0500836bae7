"""A side in its own process: frozen unless asked, and never a hang or an orphan, however it ends."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from netdyno.arms import InProcessArm, open_arm, resident
from netdyno.arms.processes import members
from netdyno.arms.resident import ResidentArm
from netdyno.arms.zygote import Zygote
from netdyno.errors import ArmError, TargetError
from netdyno.measure.stopwatch import children
from netdyno.records.trial import Change
from netdyno.targets.workload import load

WORK = str(Path(__file__).with_name("work.py"))


@pytest.fixture(scope="module")
def zygotes_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("zygote")


@pytest.fixture(scope="module")
def zygote(zygotes_folder):
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TMPDIR", str(zygotes_folder))
        environment.setattr("tempfile.tempdir", None)
        made = Zygote()
    with made:
        yield made
    # torch keeps a cache of compiled code there from the first step on, unless this process has chosen a place already.
    assert not [each for each in zygotes_folder.iterdir() if not each.name.startswith("torchinductor_")]


@pytest.fixture
def arm(zygote):
    """Makes arms, and checks that nothing of them is left."""
    made = []

    def build(name, recipe=(), **settings):
        settings = {"seed": 0, "limit_s": 60.0, "zygote": zygote} | settings
        made.append(ResidentArm(f"{WORK}:{name}", recipe, **settings))
        groups.append(made[-1].process)
        return made[-1]

    groups = []
    yield build
    for side in made:
        side.close()
    assert not any(members(group) for group in groups)


def eventually(holds):
    end = time.monotonic() + 10
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def state(process):
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_it_steps_as_a_side_in_this_process_does(arm):
    side = arm("Plain")
    with InProcessArm(load(f"{WORK}:Plain"), seed=0) as here:
        assert side.checksum() == here.checksum()
        assert side.turn(4).losses == here.turn(4).losses


def test_a_turn_says_where_the_time_went(arm):
    turn = arm("Plain").turn(3)
    assert turn.steps == 3
    assert {"data", "forward", "backward", "optimizer"} <= set(turn.phases)
    assert turn.per_step > 0


def test_a_respawned_side_is_another_process_fed_the_same_data(arm):
    side = arm("Workers")
    process, checksum = side.process, side.checksum()
    side.respawn()
    assert side.process != process
    assert not members(process)
    assert side.checksum() == checksum


def test_the_whole_group_is_frozen_between_turns_and_reads_nothing(arm, tmp_path, monkeypatch):
    read = tmp_path / "read"
    monkeypatch.setenv("SAMPLES_READ", str(read))
    side = arm("Workers")  # 2 workers keep 32 batches of 10 in store: far from full after these turns
    for _ in range(2):
        side.turn(2)
        group = members(side.process)
        assert len(group) == 3
        assert eventually(lambda: all(state(process) == "T" for process in members(side.process)))
        before = read.stat().st_size
        time.sleep(0.2)
        assert read.stat().st_size == before
    side.turn(40)
    assert read.stat().st_size > before


def test_it_has_no_terminal_and_its_prints_stay_out_of_ours(arm, capfd):
    side = arm("Talks")
    side.turn(2)
    side.close()
    assert "a word" not in "".join(capfd.readouterr())


def test_a_sample_that_raises_is_told_with_its_line(arm):
    for name in ("Rotten", "RottenInWorker"):
        side = arm(name)
        line = next(n for n, text in enumerate(Path(WORK).read_text().splitlines(), 1) if "is rotten" in text)
        with pytest.raises(ArmError) as caught:
            side.turn(90)
        assert f"`ValueError: sample 700 is rotten` ({WORK}:{line})" in caught.value.says
        assert "Traceback" in caught.value.last_words
        with pytest.raises(ArmError, match="closed"):
            side.turn(1)


def test_a_side_that_ends_itself_says_with_which_status(arm):
    with pytest.raises(ArmError, match="ended itself with exit status 3 while stepping"):
        arm("Exits").turn(1)


def test_a_side_that_calls_exit_is_a_failed_side(arm):
    with pytest.raises(ArmError, match="SystemExit: enough"):
        arm("Leaves").turn(1)
    with pytest.raises(ArmError, match="SystemExit: enough"), InProcessArm(load(f"{WORK}:Leaves"), seed=0) as here:
        here.turn(1)


def test_a_crash_leaves_the_stack_as_last_words(arm):
    with pytest.raises(ArmError, match="killed by SIGSEGV while stepping") as caught:
        arm("Crashes").turn(1)
    assert "Segmentation fault" in caught.value.last_words
    assert "work.py" in caught.value.last_words


@pytest.mark.parametrize("name", ["Hangs", "HangsInWorker"])
def test_a_side_that_hangs_is_ended_at_its_limit_and_says_where_it_stood(arm, name):
    side = arm(name)
    side.limit_s = 2.0
    began = time.monotonic()
    with pytest.raises(ArmError, match=r"no answer within 2 s while stepping \(.*work\.py:\d+\)") as caught:
        side.turn(30)
    assert time.monotonic() - began < 30
    assert "work.py" in caught.value.last_words


def test_a_side_that_runs_out_of_memory_says_so(arm):
    with pytest.raises(ArmError, match="ran out of memory while stepping"):
        arm("Greedy").turn(1)


def test_a_loss_that_is_not_a_number_is_a_number_to_us(arm):
    (loss,) = arm("NotANumber").turn(1).losses
    assert loss != loss


def test_a_target_that_cannot_be_loaded_is_an_arm_error(zygote):
    with pytest.raises(ArmError, match="has no `Nowhere`"):
        ResidentArm(f"{WORK}:Nowhere", seed=0, zygote=zygote)
    assert zygote.idle


def test_killing_a_frozen_side_is_told_at_its_next_turn(arm):
    side = arm("Workers")
    os.kill(side.process, signal.SIGKILL)
    with pytest.raises(ArmError, match="killed by SIGKILL while stepping"):
        side.turn(1)


def test_killing_a_loader_worker_ends_the_side(arm):
    side = arm("Workers")
    os.kill(children(side.process)[0], signal.SIGKILL)
    with pytest.raises(ArmError, match="the side lost a loader worker, killed by SIGKILL"):
        side.turn(50)


def test_when_the_zygote_is_killed_its_frozen_sides_die_too_and_the_lab_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with Zygote() as own:
        side = ResidentArm(f"{WORK}:Workers", seed=0, zygote=own)
        group = side.process
        os.kill(own.pid, signal.SIGKILL)
        assert eventually(lambda: not members(group))
        with pytest.raises(ArmError, match="was lost while stepping"):
            side.turn(1)
        assert not own.alive
    assert not list(tmp_path.iterdir())


LAB = """
import sys, time
from netdyno.arms import ResidentArm
from netdyno.arms.zygote import Zygote
from netdyno.measure.stopwatch import children
zygote = Zygote()
sides = [ResidentArm(sys.argv[1] + ":" + name, seed=0, zygote=zygote) for name in ("Workers", "Spawned")]
print(zygote.pid, *(side.process for side in sides), flush=True)
time.sleep(600)
"""


def test_killing_the_lab_leaves_no_process_behind():
    with subprocess.Popen([sys.executable, "-c", LAB, WORK], stdout=subprocess.PIPE, text=True) as lab:
        zygote, *groups = map(int, lab.stdout.readline().split())
        everything = [zygote, *(process for group in groups for process in members(group))]
        # Two sides, one with two forked workers, one with a fork server and its worker (and a tracker of resources).
        assert len(everything) >= 1 + 3 + 3
        lab.kill()
    assert eventually(lambda: not any(running(process) for process in everything))


def running(process):
    try:
        return state(process) not in "ZX"
    except FileNotFoundError:
        return False


def test_a_killed_side_leaves_no_semaphore_and_no_socket_behind(arm, zygotes_folder):
    side = arm("Spawned")
    semaphores = set(re.findall(r"/dev/shm/sem\.\S+", Path(f"/proc/{side.process}/maps").read_text()))
    sockets = zygotes_folder.rglob(f"{side.process}/**/*")
    assert semaphores
    assert any(path.is_socket() for path in sockets)
    os.kill(side.process, signal.SIGKILL)
    with pytest.raises(ArmError, match="SIGKILL"):
        side.turn(1)
    assert not any(os.path.exists(path) for path in semaphores)
    assert not any(path.is_socket() for path in zygotes_folder.rglob("*"))


def test_a_fresh_interpreter_has_the_variables_from_its_start(arm, monkeypatch):
    monkeypatch.setattr(
        resident, "environment_of", lambda recipe: {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}
    )
    side = arm("Sees")
    with pytest.raises(ArmError, match="threads 1 wait passive"):
        side.turn(1)
    assert "OMP_WAIT_POLICY" not in os.environ


def test_a_side_has_the_labs_threads(arm):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        with pytest.raises(ArmError, match=f"threads {before + 1} wait None"):
            arm("Sees").turn(1)
    finally:
        torch.set_num_threads(before)


def test_memory_counts_the_state_inside_and_the_peak_outside(arm):
    plain, deep = arm("Plain"), arm("Breathes")
    for side in (plain, deep):
        side.turn(1)
    small, large = plain.memory(), deep.memory()
    # Five parameters with gradients and two moments, and a counter for each of two tensors.
    assert small.state == large.state == 4 * (4 * 5 + 2)
    # 100 MiB were held for a moment, between two looks.
    assert large.peak - small.peak > 90 << 20


def test_a_process_that_cannot_be_started_is_an_arm_error(zygote, monkeypatch):
    def full(_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", full)
    with pytest.raises(ArmError, match=r"failed while being started: `OSError: .*Too many open files`"):
        ResidentArm(f"{WORK}:Plain", seed=0, zygote=zygote)


def test_an_interrupted_order_closes_the_zygote_for_its_answer_would_be_taken_for_the_next():
    own = Zygote()
    monkey = pytest.MonkeyPatch()
    monkey.setattr("netdyno.arms.zygote.socket.send_fds", interrupted)
    with pytest.raises(KeyboardInterrupt):
        own.start(0, 0)
    monkey.undo()
    assert not own.alive
    assert own.idle


def interrupted(*_):
    raise KeyboardInterrupt


def test_open_arm_chooses_the_form(zygote):
    here = open_arm(f"{WORK}:Plain", form="in-process", seed=0)
    assert isinstance(here, InProcessArm)
    here.close()
    with pytest.raises(TargetError, match="cannot be put into a process of its own"):
        open_arm(load(f"{WORK}:Plain"), form="processes", seed=0)


def test_a_recipe_is_applied_inside(arm):
    # The change refuses nothing here; it is enough that it was found by name in the other process.
    side = arm("Plain", (Change(id="channels-last"),))
    assert side.recipe == (Change(id="channels-last"),)
    assert side.turn(1).steps == 1
