"""Whoever starts scripts here cleans up: after each file nobody of ours is alive, and nothing of ours is left."""

import contextlib
import multiprocessing.util
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from netdyno.scripts.scratch import sweep

# These are scripts that others start: looking through them for doctests would train in the test's own process.
collect_ignore_glob = ["nasty/*", "styles/*", "without_compiler/*"]

MARK = "NETDYNO_STARTED_BY_TESTS"  # every process that a test starts inherits it, in whatever session it goes
PATIENCE_S = 20.0  # the kernel takes a while to end who was killed, on a busy machine


@pytest.fixture(scope="session", autouse=True)
def temporary():
    """A folder for temporary things that nobody else on this machine writes to."""
    with tempfile.TemporaryDirectory(prefix="tested-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, str(os.getpid()))
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)
        # A folder that multiprocessing made in it for its sockets goes now: at the end of Python it would be missed.
        multiprocessing.util._run_finalizers(-100)


@pytest.fixture(scope="module", autouse=True)
def _nobody_and_nothing_is_left(temporary):
    yield
    until = time.monotonic() + PATIENCE_S
    while (alive := survivors()) and time.monotonic() < until:
        time.sleep(0.05)
    sweep(temporary)  # as the next launch does: what labs left that were killed here
    left = sorted(temporary.glob("netdyno-*"))
    # The next file is not blamed for it.
    for process in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    for folder in left:
        shutil.rmtree(folder, ignore_errors=True)
    assert (list(alive.values()), left) == ([], [])


def survivors():
    """The living processes that a test of this session started, and their commands."""
    mark = f"{MARK}={os.getpid()}".encode()
    found = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and place.name != str(os.getpid()):
            with contextlib.suppress(OSError):
                # The dead who were not waited for yet have no environment.
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    command = (place / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(place.name)] = command.decode(errors="replace")
    return found
