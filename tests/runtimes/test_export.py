"""An export in its own process: what it says when it fails, and that it is ended when it takes too long."""

import time

import psutil
import pytest

from netdyno.errors import ArmError
from netdyno.runtimes import _base as base
from netdyno.runtimes._export import Spec, export
from netdyno.runtimes.eager import Eager
from netdyno.runtimes.exported_program import ExportedProgram
from runtimes.specimens import exported, reference, release, signature_of

SLOW = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(r"{pid}", "w").write(str(child.pid))
time.sleep(600)
"""


def spec_of(reference, folder):
    signature = signature_of(release("Pictures"))
    return Spec(reference=reference, change=base.written(Eager()), folder=str(folder), signature=signature)


def test_the_reason_is_one_line_and_the_last_words_are_kept(tmp_path):
    with pytest.raises(ArmError) as caught:
        exported(ExportedProgram(), "FixedRows", tmp_path)
    assert caught.value.says.startswith("its code fixes the number of rows")
    assert "Traceback" in caught.value.last_words or "ArmError" in caught.value.last_words


def test_an_error_of_three_lines_is_said_in_one(tmp_path):
    with pytest.raises(ArmError) as caught:
        export(spec_of(reference("Nothing"), tmp_path), timeout_s=300)
    assert caught.value.says.startswith(f"`{reference('Nothing')}` is not a release: ")


@pytest.mark.slow
def test_what_takes_too_long_is_ended_with_its_children(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW.format(pid=tmp_path / "pid"))
    (tmp_path / "out").mkdir()
    with pytest.raises(ArmError, match="was ended after"):
        export(spec_of(f"{tmp_path / 'slow.py'}:Slow", tmp_path / "out"), timeout_s=25)
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until
        time.sleep(0.1)
