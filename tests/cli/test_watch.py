"""A script that is watched is the script that it was."""

import os
import subprocess
import sys

import pytest

from netdyno.cli._declare import run_command
from netdyno.cli.watch import watch
from netdyno.errors import NetdynoError
from netdyno.store.journal import runs

TRAIN = """
import os, sys
import torch
assert sys.modules["__main__"].__dict__ is globals()
print(sys.argv, __name__, os.path.basename(__file__), sys.path[0] == os.getcwd())
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for update in range(20):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long()).backward()
    optimizer.step()
print(model.weight.double().sum().item().hex())
if "--fail" in sys.argv:
    raise ValueError("on purpose")
sys.exit(3)
"""


def run(folder, *words, command=("-m", "netdyno", "watch")):
    return subprocess.run(
        [sys.executable, *command, *words], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


@pytest.mark.slow
def test_output_status_and_weights_are_the_scripts_own_and_the_journal_is_there(folder):
    plain = run(folder, "train.py", "--epochs", "3", command=())
    seen = run(folder, "train.py", "--run", "digits", "--tag", "board=a", "--stage", "data", "--", "--epochs", "3")
    assert (seen.stdout, seen.returncode) == (plain.stdout, plain.returncode)
    (found,) = runs(folder / ".netdyno")
    assert f"journal: {found.folder}" in seen.stderr
    assert "carries no tag" not in seen.stderr
    assert found.info.name == "digits"
    assert found.info.tags == {"board": "a", "stage": "data"}
    assert len(found.series("loss").values) == 20
    assert (found.end["reason"], found.end["says"]) == ("stopped", "its exit status was 3")


@pytest.mark.slow
def test_a_script_that_fails_is_said_to(folder):
    seen = run(folder, "train.py", "--", "--fail")
    assert seen.returncode == 1
    assert "on purpose" in seen.stderr
    assert "this run carries no tag; `--stage optim`" in seen.stderr
    (found,) = runs(folder / ".netdyno")
    assert (found.info.name, found.end["reason"]) == ("train", "failed")


@pytest.mark.slow
def test_where_nothing_can_be_written_the_script_runs_all_the_same(folder):
    (folder / "taken").write_text("a file, and no folder")
    seen = run(folder, "train.py", "--store", "taken")
    assert seen.returncode == 3
    assert "not watched, and goes on all the same" in seen.stderr


def test_a_script_without_torch_runs_and_is_told_of(folder):
    (folder / "plain.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(4)\n")
    seen = run(folder, "plain.py", "--", "-x")
    assert (seen.stdout, seen.returncode) == ("['-x']\n", 4)
    assert "nothing was watched" in seen.stderr


@pytest.mark.parametrize(
    "words",
    [["--tag", "board"], ["--stage", "training"], ["--budget", "0"], ["--budget", "80%"], ["--on-trip", "shout"]],
)
def test_what_cannot_be_is_refused_before_the_script_runs(folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    with pytest.raises(NetdynoError):
        run_command("watch", watch, ["train.py", *words])


def test_a_script_that_is_not_there_is_missed_by_its_name(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(NetdynoError, match=r"trian\.py"):
        run_command("watch", watch, ["trian.py"])


def test_a_run_without_a_tag_is_refused_where_one_is_required(tmp_path):
    with pytest.raises(NetdynoError, match="without a tag") as raised:
        run_command("watch", watch, ["train.py", "--require-tag", "--store", str(tmp_path)])
    assert "data=v3" in raised.value.hint
    assert not list(tmp_path.iterdir())
