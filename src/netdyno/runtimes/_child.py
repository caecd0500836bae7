"""A process that holds one exported model and answers when told: `python -m netdyno.runtimes._child`.

It speaks over its own pipes: pickled requests in, pickled answers out. Whatever a runtime prints goes to standard error. Only our
own processes are on the other end, so pickle is safe here.
"""

import os
import pickle
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import psutil

from netdyno.measure.latency import Burst, burst, elapsed
from netdyno.records.deployment import Running, Signature
from netdyno.records.trial import Change
from netdyno.runtimes import _base as base


class Model:
    """One exported model in this process: loaded, then called, timed and weighed."""

    def __init__(self, change: Change, folder: Path, running: Running, signature: Signature) -> None:
        self.runtime = base.read(change)
        self.place = (folder, running, signature)
        self.held: base.Arrays = ()
        self.call: base.Call | None = None

    def load(self) -> float:
        """Seconds until it can be called."""
        folder, running, signature = self.place

        def work() -> None:
            self.call = base.checked(base.padded(self.runtime.load(folder, running), running.batches), signature)

        return elapsed(work)

    def hold(self, arrays: base.Arrays) -> float:
        """Keep rows for bursts; gives the seconds of the first answer, to the first row alone."""
        self.held = arrays
        return elapsed(lambda: self.run(tuple(array[:1] for array in arrays)))

    def run(self, arrays: base.Arrays) -> base.Arrays:
        """The answers to some rows."""
        assert self.call is not None
        return self.call(arrays)

    def burst(self, rows: int, seconds: float, least: int, most: int) -> Burst:
        """Calls in a row with `rows` held rows each, other rows every time."""
        call, windows = self.call, list(_windows(self.held, rows))
        assert call is not None
        return burst(lambda i: call(windows[i % len(windows)]), seconds=seconds, least=least, most=most)

    def memory(self) -> int:
        """Bytes of memory that are this process's own part: its proportional set."""
        return int(psutil.Process().memory_full_info().pss)


def _windows(arrays: base.Arrays, rows: int) -> Iterator[base.Arrays]:
    """Different parts of the held rows, at most 64; whole copies where fewer rows are held than a call takes."""
    count = len(arrays[0])
    if count < rows:
        times = -(-rows // count)
        yield tuple(np.ascontiguousarray(np.concatenate([array] * times)[:rows]) for array in arrays)
        return
    for at in range(0, min(count - rows + 1, 64 * rows), rows):
        yield tuple(np.ascontiguousarray(array[at : at + rows]) for array in arrays)


def main() -> None:
    """Answer requests until the pipe is closed."""
    inward, outward = _pipes()
    model: Model | None = None
    while True:
        try:
            name, arguments = pickle.load(inward)
        except EOFError:
            return
        try:
            if name == "open":
                model = Model(*arguments)
                answer: Any = model.load()
            else:
                answer = getattr(model, name)(*arguments)
            reply = ("done", answer)
        except Exception as error:
            traceback.print_exc()
            reply = ("failed", f"{type(error).__name__}: {error}")
        pickle.dump(reply, outward)
        outward.flush()


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Our two ends; what anybody prints from now on goes to standard error."""
    inward, outward = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return inward, outward


if __name__ == "__main__":
    main()
