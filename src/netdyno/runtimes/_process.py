"""The near end of a process that holds one exported model: started, asked, and ended, whatever happens to it."""

import os
import pickle
import select
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from netdyno.errors import ArmError
from netdyno.measure.latency import Burst
from netdyno.records.deployment import Running, Signature
from netdyno.records.trial import Change
from netdyno.runtimes._base import Arrays
from netdyno.runtimes._nursery import Forked, Nursery

LAST_WORDS = 12  # lines of what the process printed that are kept when it fails


class Process:
    """One exported model in its own process: started afresh, or forked from a `nursery` where loading it needs PyTorch.

    Raises ArmError when it fails, hangs or dies; close it, or use it in a `with`.
    """

    def __init__(
        self,
        change: Change,
        folder: Path,
        running: Running,
        signature: Signature,
        *,
        python: str = sys.executable,
        timeout_s: float = 300.0,
        nursery: Nursery | None = None,
        program: tuple[str, ...] = ("-m", "netdyno.runtimes._child"),
    ) -> None:
        self.timeout_s = timeout_s
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed in `close`
        self._child: subprocess.Popen[bytes] | Forked = (
            nursery.start(self._said)
            if nursery is not None
            else subprocess.Popen(
                (python, *program),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=environment_for(running),
            )
        )
        try:
            self.load_s: float = self._asked("open", change, folder, running, signature)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hold(self, arrays: Arrays) -> float:
        """Keep rows for bursts; gives the seconds of the first answer."""
        first_s: float = self._asked("hold", arrays)
        return first_s

    def run(self, arrays: Arrays) -> Arrays:
        """The answers to some rows."""
        answers: Arrays = self._asked("run", arrays)
        return answers

    def burst(self, rows: int, seconds: float, *, least: int = 3, most: int = 100_000) -> Burst:
        """Calls in a row with `rows` of the held rows each."""
        found: Burst = self._asked("burst", rows, seconds, least, most)
        return found

    def memory(self) -> int:
        """Bytes of memory that are the process's own part."""
        found: int = self._asked("memory")
        return found

    def close(self) -> None:
        """End the process."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(2.0)
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        self._said.close()

    def _asked(self, name: str, *arguments: Any) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            pickle.dump((name, arguments), self._child.stdin)
            self._child.stdin.flush()
            if not select.select([self._child.stdout], [], [], self.timeout_s)[0]:
                raise ArmError(f"it gave no answer within {self.timeout_s:g} s", last_words=self.last_words())
            state, answer = pickle.load(self._child.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            status = self._child.wait(5.0) if self._child.poll() is None else self._child.returncode
            raise ArmError(f"its process ended with status {status}", last_words=self.last_words()) from error
        if state == "failed":
            raise ArmError(answer, last_words=self.last_words())
        return answer

    def last_words(self) -> str:
        """The last lines that the process printed."""
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - 8000))
        lines = self._said.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-LAST_WORDS:])


def environment_for(running: Running) -> dict[str, str]:
    """The environment of such a process: thread counts must be known before an OpenMP runtime starts."""
    threads = str(running.threads)
    quiet = {"TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}
    return {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, **quiet}
