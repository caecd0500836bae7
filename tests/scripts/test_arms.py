"""A user's script as a side of a trial: it steps when told, starts again when over, and says how it failed."""

import functools
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from netdyno.errors import ArmError
from netdyno.records.trial import Change
from netdyno.scripts.arms import ScriptArm, ScriptProcessArm, ScriptSession
from netdyno.targets.script import Script
from netdyno.trials.race import race

pytestmark = pytest.mark.usefixtures("without_compiler")

FUSED = Change(id="fused-optimizer")
THREADS = Change(id="threads", settings={"threads": 1})

HEAD = """
import sys, torch
from torch import nn
torch.manual_seed(0)
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 100000
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
rows = torch.randn(64, 8)
"""

PLAIN = """
optimizer = torch.optim.Adam(model.parameters())
data = torch.utils.data.TensorDataset(rows, rows.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
for epoch in range(epochs):
    for inputs, target in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), target).backward()
        optimizer.step()
"""

CLOSURE = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def closure():
    optimizer.zero_grad()
    loss = model(rows).square().mean()
    loss.backward()
    return loss
for _ in range(8 * epochs):
    optimizer.step(closure)
"""

TWO = """
other = nn.Linear(8, 1)
first, second = (torch.optim.Adam(each.parameters()) for each in (model, other))
for _ in range(8 * epochs):
    for each, optimizer in ((model, first), (other, second)):
        optimizer.zero_grad()
        each(rows).square().mean().backward()
        optimizer.step()
"""

CRASHING = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1000):
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    optimizer.step()
    if step == 20:
        raise ValueError("no more coffee")
"""

WORKING = """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, index): return rows[index] * 2, rows[index].sum()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(Data(), batch_size=8)
for epoch in range(epochs):
    for inputs, target in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), target[:, None]).backward()
        optimizer.step()
"""


def written(folder, body, *arguments):
    """A script in a folder of its own."""
    file = folder / "train.py"
    file.write_text(HEAD + textwrap.dedent(body))
    return Script(argv=(sys.executable, "train.py", *arguments), cwd=folder, name="train.py", file=file, kind="file")


@pytest.fixture
def script(tmp_path):
    """Write a script and name it."""
    return functools.partial(written, tmp_path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """One running script for all who only ask it for turns and answers; started again for whoever comes after a failure."""
    with ScriptSession(
        written(tmp_path_factory.mktemp("plain"), "open('left.txt', 'w').write('x')" + PLAIN)
    ) as session:
        yield session


def processes_of(session):
    return session._running._launched.members() if session._running else []


def gone(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def holds_to_its_turn(session, *, cycle):
    turn = ScriptArm(session, ()).turn(5)
    assert (turn.steps, len(turn.losses)) == (5, 5)
    assert session.ready["cycle"] == cycle
    assert session.ready["updates"] >= 2
    assert sum(split.wall for split in turn.phases.values()) == pytest.approx(turn.time.wall)
    assert turn.phases["forward"].wall > 0
    assert turn.per_step > 0


def test_a_turn_takes_as_many_iterations_as_it_was_told(plain):
    holds_to_its_turn(plain, cycle=1)


@pytest.mark.parametrize(("body", "cycle"), [(CLOSURE, 1), (TWO, 2)], ids=["closure", "two optimizers"])
def test_an_iteration_is_a_closures_step_or_a_whole_period(script, body, cycle):
    with ScriptSession(script(body)) as session:
        holds_to_its_turn(session, cycle=cycle)


def test_two_sides_of_one_script_race_in_turns(plain):
    sides = [ScriptArm(plain, ()), ScriptArm(plain, (FUSED,))]
    assert sides[0].checksum() == sides[1].checksum() != ""
    launches = plain.launches
    rounds = race(sides, rounds=3, steps=4, chance=random.Random(0))
    assert [turn.steps for each in rounds for turn in each.turns] == [4] * 6
    assert plain.launches == launches


def test_a_script_says_why_it_cannot_be_given_a_change(plain):
    assert plain.ask(FUSED) is None
    assert plain.ask(Change(id="channels-last")) == "the model has no 2-D convolution"
    assert "already" in plain.ask(FUSED, recipe=[FUSED])
    assert "cores" in plain.ask(Change(id="threads", settings={"threads": 4096}))


def test_a_change_is_taken_back_without_a_trace(plain):
    assert plain.undo(FUSED) is None
    assert plain.undo(Change(id="tensor-slicing"), recipe=[FUSED]) is None
    assert ScriptArm(plain, ()).turn(2).steps == 2


def test_memory_counts_weights_and_what_autograd_keeps(plain):
    memory = ScriptArm(plain, ()).memory()
    numbers = 8 * 16 + 16 + 16 + 1
    assert memory.state >= 4 * numbers * 4  # weights, gradients and two moments, four bytes each
    assert memory.activations >= 8 * 16 * 4  # tanh keeps its output
    assert memory.peak is None


def test_the_working_directory_is_left_alone(plain):
    assert ScriptArm(plain, ()).turn(1).steps == 1
    assert os.listdir(plain.script.cwd) == ["train.py"]


def test_what_only_works_from_the_start_cannot_be_switched(plain):
    with pytest.raises(ArmError, match="only works from the start"):
        plain.turn((Change(id="loader-workers", settings={"workers": 1}),), 1)


def test_a_script_that_is_over_starts_again(script):
    with ScriptSession(script(PLAIN, "5")) as session:  # 40 updates
        arm = ScriptArm(session, ())
        assert [arm.turn(15).steps for _ in range(3)] == [15] * 3
        assert session.launches > 1


def test_a_script_too_short_for_a_turn_says_so_and_is_not_started_for_ever(script):
    with ScriptSession(script(PLAIN, "2")) as session, pytest.raises(ArmError, match=r"the whole run of `train[.]py`"):
        ScriptArm(session, ()).turn(50)
    assert session.launches == 1


def test_a_script_that_ends_before_it_can_be_driven_says_so(script):
    with ScriptSession(script("optimizer = 1")) as session, pytest.raises(ArmError, match="too few to be driven"):
        ScriptArm(session, ()).turn(1)


def test_a_crash_is_the_sides_failure_at_the_users_own_line(script):
    one = script(CRASHING)
    with ScriptSession(one) as session, pytest.raises(ArmError) as failure:
        ScriptArm(session, ()).turn(100)
    line = one.file.read_text().splitlines().index('        raise ValueError("no more coffee")') + 1
    assert "ValueError: no more coffee" in failure.value.says
    assert f"train.py:{line}" in failure.value.says
    assert str(one.cwd) in failure.value.says
    assert "no more coffee" in failure.value.last_words


def test_a_crash_before_the_first_turn_is_a_failure_too(script):
    with ScriptSession(script("raise ValueError('at once')")) as session, pytest.raises(ArmError, match="at once"):
        ScriptArm(session, ()).turn(1)


def test_a_killed_script_is_a_failure_and_the_session_can_start_it_again(script):
    with ScriptSession(script(PLAIN)) as session:
        arm = ScriptArm(session, ())
        arm.turn(1)
        os.kill(session.ready["pid"], signal.SIGKILL)
        with pytest.raises(ArmError, match="killed by SIGKILL"):
            arm.turn(1)
        with pytest.raises(ArmError, match="closed"):
            arm.turn(1)
        assert ScriptArm(session, ()).turn(2).steps == 2


def test_a_script_that_does_not_answer_is_a_failure(script):
    hanging = PLAIN + "import time; time.sleep(1000)"
    with ScriptSession(script(hanging, "1"), limit_s=1.0) as session, pytest.raises(ArmError, match="within 1 s"):
        ScriptArm(session, ()).turn(50)


def test_nothing_runs_while_no_turn_is_on_and_nobody_is_left_behind(script):
    session = ScriptSession(script(PLAIN))
    session.turn((), 1)
    process = session.ready["pid"]
    time.sleep(0.05)
    with open(f"/proc/{process}/stat") as file:
        assert file.read().rpartition(")")[2].split()[0] == "T"
    everybody = processes_of(session)
    session.close()
    assert process in everybody
    assert all(map(gone, everybody))
    session.close()


def test_loader_workers_come_from_the_start_and_are_frozen_with_the_script(script):
    workers = Change(id="loader-workers", settings={"workers": 2})
    with ScriptProcessArm(script(WORKING), (workers, FUSED)) as arm:
        assert arm.session.workers == 2
        assert arm.turn(2).steps == 2
        everybody = processes_of(arm.session)
        assert len(everybody) >= 3
        assert arm.memory().peak > 1e7
    assert all(map(gone, everybody))


def test_an_edited_source_runs_in_the_scratch_and_needs_no_knob_also_when_respawned_with_the_same_data(script):
    one = script(PLAIN)
    edited = one.file.read_text().replace("Adam(model.parameters())", "Adam(model.parameters(), fused=True)")
    with ScriptProcessArm(one, (FUSED,), sources={"train.py": edited}) as arm:
        first, data = arm.session.ready["pid"], arm.checksum()
        arm.respawn()
        assert arm.session.ready["pid"] != first
        assert arm.checksum() == data != ""
        assert arm.turn(2).steps == 2
        assert "already uses the fused form" in arm.session.ask(FUSED)
    assert "fused" not in one.file.read_text()


LAB = """
import os, signal, sys
from pathlib import Path
from netdyno.records.trial import Change
from netdyno.scripts.arms import ScriptProcessArm
from netdyno.targets.script import Script
one = Script(argv=(sys.executable, "train.py"), cwd=Path(sys.argv[1]), name="train.py", file=None, kind="file")
arm = ScriptProcessArm(one, (Change(id="loader-workers", settings={"workers": 2}),))
arm.turn(2)
print(*arm.session._running._launched.members(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_frozen_script_and_its_workers_die_with_the_lab(script):
    one = script(WORKING)
    lab = subprocess.run([sys.executable, "-c", LAB, str(one.cwd)], capture_output=True, text=True, check=False)
    assert lab.returncode == -signal.SIGKILL, lab.stderr
    everybody = [int(process) for process in lab.stdout.split()]
    assert len(everybody) >= 3
    until = time.monotonic() + 20
    while not all(map(gone, everybody)) and time.monotonic() < until:
        time.sleep(0.05)
    assert all(map(gone, everybody))
