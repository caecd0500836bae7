"""A side in a process of its own, for changes that alter the process or its loader workers.

The resident steps only when told. Between two orders its whole process group, loader workers included, is
frozen, so that while one side runs the others take no core and prefetch nothing.

What is queued when a turn begins was made earlier, but in the side's own counted time: workers run exactly
while the side's clock does. They are stopped the moment it stops, before anything else, and thawed the moment
before it starts. So over many turns a side consumes what it produced; only what the warm-up left in the queue is a
gift, at most one queue of batches per spawn, and a turn that begins with a full queue ends with a full one.
What cannot be frozen is a read that the kernel, a disk or a sleep has already begun: at most one sample per worker
and turn is gained that way, so turns hold many samples per worker.

No step is thrown away at the beginning of a turn. Turns of one rotation of the workers against turns of eight
(`benchmarks/arm_bias.py`, second table, one thread, a machine under load): digits without workers -0.1 % [-1.9, +1.7],
a sleeping loader with 4 workers -2.3 % [-8, +4], a matmul-bound step -1.5 % [-2.2, -0.9]. Being frozen shows no price
that a lost step would buy off; what it does show, both sides of a pair have alike, since their turns are equally long.
Equal sides differed with a standard deviation of 2.9 % over forked spawns and 2.3 % over fresh interpreters (0.8 %
in one process): a fork is no luckier than a start from nothing, so the quick one is the rule.
"""

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any

import torch
from msgspec.structs import replace

from netdyno.arms.child import ASK_WHERE, Answer, Order
from netdyno.arms.last_words import stack_of_user, tail, told
from netdyno.arms.processes import killed_for_memory, members, peak_weight, signal_group, thaw
from netdyno.arms.zygote import Zygote, shared
from netdyno.errors import ArmError
from netdyno.interventions._base import environment_of
from netdyno.records.measured import Turn
from netdyno.records.trial import Change, Memory

LIMIT_S = 300.0
GOODBYE_S = 3.0  # for loader workers to end in order, so that they leave nothing in shared memory
FIRST_WORD_S, QUIET_S, MOST_STACKS_S = 2.0, 0.1, 6.0  # for the stacks of a group that hangs
LONGEST_LOG = 1 << 20


class ResidentArm:
    """One side in a child process, built when made. The target goes there by name, never by value.

    A call that takes longer than `limit_s` ends the side. With `fresh` it is a new interpreter instead of a fork of
    the zygote, as recipes with environment variables need; then let the other side of the trial be fresh too.
    """

    def __init__(
        self,
        reference: str,
        recipe: Sequence[Change] = (),
        *,
        seed: int,
        limit_s: float | None = LIMIT_S,
        zygote: Zygote | None = None,
        fresh: bool = False,
    ) -> None:
        self.reference = reference
        self.recipe = tuple(recipe)
        self.seed = seed
        self.limit_s = limit_s
        self.setup_s = 0.0
        self._changes = environment_of(self.recipe)
        self._fresh = fresh or bool(self._changes)
        self._own_zygote = zygote
        self._process: _Process | None = None
        self._build()

    def turn(self, steps: int) -> Turn:
        """Take `steps` training steps and say where the time went. Raises ArmError; then the arm is closed."""
        turn: Turn = self._ask("stepping", ("turn", steps))
        return turn

    def checksum(self) -> str:
        """The hash of the first three batches, before placement."""
        return self._checksum

    def memory(self) -> Memory:
        """Activations and state, counted inside; `peak` is the most that the process group held so far.

        On a CPU the peak is read from outside (see `peak_weight`), on a GPU it is the allocator's. Takes one more
        training step.
        """
        memory: Memory = self._ask("counting its memory", ("memory",))
        if memory.peak is None and self._process is not None:
            memory = replace(memory, peak=peak_weight(self._process.id))
        return memory

    def respawn(self) -> None:
        """The same side in a new process: the unit of replication between processes."""
        self.close()
        self._build()

    @property
    def process(self) -> int | None:
        """The process id, which is also its group's, or None when closed."""
        return None if self._process is None else self._process.id

    def close(self) -> None:
        """End the process and everything it started. Safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            process.end(politely=True)

    def __enter__(self) -> "ResidentArm":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _build(self) -> None:
        try:
            order = self._started()
        except OSError as error:
            raise told(error, doing="being started") from error
        self._checksum: str = self._ask("being built", order)

    def _started(self) -> Order:
        """A process, and what it shall build."""
        environment = dict(os.environ) | self._changes
        zygote = self._own_zygote or shared(self.reference)
        self._process = _Process(zygote, environment if self._fresh else None)
        return Order(
            reference=self.reference,
            recipe=self.recipe,
            seed=self.seed,
            folder=os.getcwd(),
            path=tuple(sys.path),
            argv=tuple(sys.argv),
            environment=environment,
            # A recipe that sets the number of threads from outside must not be overruled from inside.
            threads=None if any(name.endswith("NUM_THREADS") for name in self._changes) else torch.get_num_threads(),
        )

    def _ask(self, doing: str, order: Any) -> Any:
        process = self._process
        if process is None:
            raise ArmError(f"the side was closed before {doing}")
        try:
            answer = process.ask(order, doing=doing, limit_s=self.limit_s)
        except BaseException:
            self._process = None
            process.end(politely=False)
            raise
        self.setup_s = answer.setup_s
        return answer.value


class _Process:
    """A resident as the lab sees it: frozen except while it is asked."""

    def __init__(self, zygote: Zygote, environment: dict[str, str] | None) -> None:
        self._zygote = zygote
        self._memory_kills = killed_for_memory()
        self._log = os.memfd_create("last words")
        # Writers append, so that cutting a long log short leaves no hole.
        fcntl.fcntl(self._log, fcntl.F_SETFL, fcntl.fcntl(self._log, fcntl.F_GETFL) | os.O_APPEND)
        self._pipe, theirs = Pipe()
        try:
            self.id = zygote.start(theirs.fileno(), self._log, environment)
            self._alive = os.pidfd_open(self.id)
        except BaseException:
            self._pipe.close()
            os.close(self._log)
            raise
        finally:
            theirs.close()
        self._ended = False

    def ask(self, order: Any, *, doing: str, limit_s: float | None) -> Answer:
        """Thaw, give an order, wait for the answer, freeze. Raises ArmError with the last words."""
        answer = self._answer(order, limit_s)
        signal_group(self.id, signal.SIGSTOP)
        if isinstance(answer, Answer):
            if os.fstat(self._log).st_size > LONGEST_LOG:
                os.ftruncate(self._log, 0)
            return answer
        if isinstance(answer, ArmError):
            words = "\n".join(filter(None, (self._words(), answer.last_words)))
            raise ArmError(answer.says, last_words=tail(words))
        if answer is _SILENT:
            raise self._hung(doing, limit_s)
        raise self._died(doing)

    def end(self, *, politely: bool) -> None:
        """End the whole group. Politely: loader workers first get a moment to end in order."""
        if self._ended:
            return
        self._ended = True
        try:
            if politely and self._sent(("close",)):
                thaw(self.id)
                wait([self._alive], GOODBYE_S)
            self._zygote.reap(self.id)
        finally:
            self._pipe.close()
            os.close(self._alive)
            os.close(self._log)

    def _answer(self, order: Any, limit_s: float | None) -> Any:
        """An Answer, an ArmError, _SILENT when the time was up, or None when the process is gone."""
        # The order waits in the pipe when the process wakes up. The process thaws its own group when it is ready.
        if not self._sent(order):
            return None
        thaw(self.id)
        ready = wait([self._pipe, self._alive], limit_s)
        if not ready:
            return _SILENT
        # What it said before it died still counts.
        if self._pipe.poll():
            try:
                return self._pipe.recv()
            except (EOFError, OSError):
                return None
        return None

    def _sent(self, order: Any) -> bool:
        try:
            self._pipe.send(order)
        except OSError:
            return False
        return True

    def _died(self, doing: str) -> ArmError:
        # The line may break a moment before the process is gone; its own end must not look like ours.
        thaw(self.id)
        wait([self._alive], 1.0)
        status = self._zygote.reap(self.id)
        return ArmError(f"the side {self._end_in_words(status)} while {doing}", last_words=tail(self._words()))

    def _end_in_words(self, status: int | None) -> str:
        if status is None:
            return "was lost"
        if os.WIFEXITED(status):
            return f"ended itself with exit status {os.WEXITSTATUS(status)}"
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        if number == signal.SIGKILL and killed_for_memory() > self._memory_kills:
            return f"was killed by the kernel ({name}), because the machine ran out of memory,"
        return f"was killed by {name}"

    def _hung(self, doing: str, limit_s: float | None) -> ArmError:
        place, stack = self._stood()
        says = f"the side gave no answer within {limit_s:g} s while {doing}{place}"
        return ArmError(says, last_words=stack or tail(self._words()))

    def _stood(self) -> tuple[str, str]:
        """The user's line at which a process of the group stands, and its stack.

        First the side itself, then those it may wait for. One after the other, for they write to one log. Processes
        that cannot write where they stand end here, as they soon would anyway.
        """
        end = time.monotonic() + MOST_STACKS_S
        for process in sorted(members(self.id), key=lambda process: process != self.id):
            place, stack = stack_of_user(self._stack_of(process))
            if place or time.monotonic() > end:
                return place, stack
        return "", ""

    def _stack_of(self, process: int) -> str:
        """What a process writes when it is asked where it stands; on a busy machine it first waits for a core."""
        before = size = os.fstat(self._log).st_size
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, ASK_WHERE)
        thaw(process)
        now = since = time.monotonic()
        end = now + FIRST_WORD_S
        while now < end and (size == before or now < since + QUIET_S):
            time.sleep(0.01)
            now = time.monotonic()
            if os.fstat(self._log).st_size != size:
                size, since = os.fstat(self._log).st_size, now
        return os.pread(self._log, size - before, before).decode(errors="replace")

    def _words(self) -> str:
        size = os.fstat(self._log).st_size
        return os.pread(self._log, LONGEST_LOG, max(0, size - LONGEST_LOG)).decode(errors="replace")


_SILENT = object()
