"""How a command line names a script, and what a script's run gives back."""

import subprocess
import sys

import pytest

from netdyno.cli._declare import run_command
from netdyno.cli._output import write_leavings
from netdyno.cli._scripts import script_named
from netdyno.cli.doctor import doctor
from netdyno.errors import NetdynoError
from netdyno.store import Store
from reports.specimens import golden

PLAIN = "import sys\nprint(sys.argv[1:])\nsys.exit(3)\n"
DECLARES = "from netdyno import Workload\nDigits = Workload(model=None, train=None)\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PLAIN)
    (tmp_path / "work.py").write_text(DECLARES)
    return tmp_path


def test_a_file_that_declares_no_workload_is_a_script(folder):
    assert script_named("train.py", ("--epochs", "3"), None).argv[1:] == ("train.py", "--epochs", "3")
    assert script_named("work.py", (), None) is None
    assert script_named("garage:digits", (), None) is None


def test_a_module_and_a_whole_command_are_scripts_too(folder):
    assert script_named(None, ("--epochs", "3"), "train").argv[1:] == ("-m", "train", "--epochs", "3")
    assert script_named(None, (sys.executable, "train.py"), None).argv[1:] == ("train.py",)


def test_nothing_at_all_is_no_script(folder):
    assert script_named(None, (), None) is None


def test_words_for_what_is_no_script_are_refused(folder):
    with pytest.raises(NetdynoError, match="takes no words"):
        script_named("work.py", ("--epochs",), None)


def test_a_script_that_is_not_there_is_missed_by_its_name(folder):
    with pytest.raises(NetdynoError) as error:
        script_named("trian.py", (), None)
    assert "did you mean `train.py`" in str(error.value)


def test_nothing_to_examine_is_said_with_what_to_write(folder):
    with pytest.raises(NetdynoError, match="nothing to examine"):
        run_command("doctor", doctor, [])


def test_a_run_is_the_scripts_own_output_and_exit_status(folder):
    done = subprocess.run(
        [sys.executable, "-m", "netdyno", "run", "train.py", "--", "--lr", "0.1"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("['--lr', '0.1']\n", 3)


def test_a_script_without_torch_could_not_be_attached_to(folder):
    done = subprocess.run(
        [sys.executable, "-m", "netdyno", "doctor", "train.py", "--progress", "none"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "error:" in done.stderr


def test_a_patch_is_left_as_a_file_that_can_be_applied(tmp_path):
    record = golden()
    told = list(write_leavings(record, Store(tmp_path / "store")))
    (line,) = [line for line in told if line.startswith("patch:")]
    assert "git apply" in line
    path = tmp_path / "store" / "artifacts" / record.id / "patch.diff"
    assert path.read_text() == record.patch.diff
