"""What goes wrong on real machines, from outside: every case ends in three lines or a failed trial, with a record
that opens and no process left behind."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "netdyno"]
MARK = "NETDYNO_TEST_MARK"


def run(*arguments, cwd, timeout=170, **how):
    return subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False, **how
    )


def marked(mark):
    """Processes that carry the mark in their environment."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                    found.append(int(process.name))
            except OSError:
                continue
    return found


def gone(mark, *, within=15.0):
    end = time.monotonic() + within
    while time.monotonic() < end:
        if not marked(mark):
            return True
        time.sleep(0.2)
    return False


WORK = """
import torch
from netdyno import Workload

def data():
    torch.manual_seed(0)
    x = torch.randn(1024, 16)
    return x, (x[:, 0] > 0).long()

Good = Workload(model=lambda: torch.nn.Linear(16, 2), train=data)

class Raising(torch.utils.data.Dataset):
    def __len__(self):
        return 1024
    def __getitem__(self, index):
        if index == 700:
            raise ValueError("sample 700 is damaged")
        return torch.randn(16), index % 2

Raises = Workload(model=lambda: torch.nn.Linear(16, 2), train=Raising)
NaN = Workload(
    model=lambda: torch.nn.Linear(16, 2), train=data,
    loss=lambda output, target: torch.nn.functional.cross_entropy(output, target) * float("nan"),
)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "work.py").write_text(WORK)
    return tmp_path


def three_lines(text):
    lines = text.strip().splitlines()[-3:]
    return lines[0].startswith("error: ") and lines[1].startswith("  because ") and lines[2].startswith("  hint: ")


def test_a_lab_that_is_killed_leaves_no_process_and_a_record_that_opens_and_resumes(folder):
    mark = uuid.uuid4().hex
    environment = {**os.environ, MARK: mark}
    tune = [*COMMAND, "tune", "work.py:Good", "--budget", "60s", "--only", "loader-workers,threads"]
    lab = subprocess.Popen(tune, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    records = folder / ".netdyno" / "records"
    end = time.monotonic() + 90
    while not list(records.glob("*.json")) and time.monotonic() < end and lab.poll() is None:
        time.sleep(0.1)
    time.sleep(2.0)  # into the middle of something
    lab.send_signal(signal.SIGKILL)
    lab.wait()
    assert gone(mark)
    shown = run("show", "last", cwd=folder)
    assert shown.returncode == 0
    assert "good" in shown.stdout.lower()
    (record,) = records.glob("*.json")
    resumed = run("tune", "--resume", record.stem, cwd=folder)
    assert resumed.returncode == 0, resumed.stderr
    assert '"finished":true' in record.read_text().replace(" ", "")


def test_a_full_disk_ends_in_three_lines(folder):
    import resource

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (256, 256))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    found = run("baseline", "work.py:Good", "--budget", "10s", cwd=folder, preexec_fn=small_files)
    assert found.returncode == 2, found.stderr
    assert three_lines(found.stderr)
    assert not list((folder / ".netdyno" / "records").glob("*.json"))


def test_a_folder_that_cannot_be_written_ends_in_three_lines(folder):
    (folder / "taken").write_text("a file where a folder is wanted")
    found = run("baseline", "work.py:Good", "--budget", "10s", "--store", "taken/inside", cwd=folder)
    assert found.returncode == 2
    assert three_lines(found.stderr)


def test_a_broken_work_file_ends_in_three_lines_with_its_line(folder):
    (folder / "broken.py").write_text("import torch\n\nWorkload(\n")
    found = run("tune", "broken.py:Digits", cwd=folder)
    assert found.returncode == 2
    assert three_lines(found.stderr)
    assert "broken.py:3" in found.stderr


def test_a_sample_that_raises_is_named(folder):
    found = run("tune", "work.py:Raises", "--budget", "20s", cwd=folder)
    assert found.returncode == 2
    assert three_lines(found.stderr)
    assert "700" in found.stderr


def test_a_loss_that_is_no_number_is_named(folder):
    found = run("tune", "work.py:NaN", "--budget", "20s", cwd=folder)
    assert found.returncode == 2
    assert three_lines(found.stderr)
    assert "nan" in found.stderr.lower()
