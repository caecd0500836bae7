"""The other end of a ResidentArm: a process that builds one side and steps it when told."""

import contextlib
import faulthandler
import os
import signal
import sys
import traceback
from multiprocessing import current_process
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import torch

from netdyno.arms.in_process import InProcessArm
from netdyno.arms.last_words import told
from netdyno.arms.processes import die_with_parent
from netdyno.errors import ArmError
from netdyno.records.base import Noun
from netdyno.records.trial import Change
from netdyno.targets.workload import load

ASK_WHERE = signal.SIGUSR1  # a process of the group writes where it stands


class Order(Noun, frozen=True, kw_only=True):
    """What to build, and the lab's surroundings to build it in."""

    reference: str
    recipe: tuple[Change, ...]
    seed: int
    folder: str
    path: tuple[str, ...]
    argv: tuple[str, ...]
    environment: dict[str, str]
    threads: int | None


class Answer(Noun, frozen=True, kw_only=True):
    """What an order gave, and what setting up has cost by what is known now."""

    value: Any
    setup_s: float


def main(pipe: int, log: int, parent: int, folder: str) -> NoReturn:
    """Live as a resident: take orders from `pipe` until it closes. Never returns."""
    status = 1
    try:
        _settle(log, parent)
        _keep_sockets_in(folder_of(folder, os.getpid()))
        _serve(Connection(pipe))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # The interpreter's own end would wait for threads and workers of the user's.
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _settle(log: int, parent: int) -> None:
    """A group of its own, tied to the parent's life; no terminal, and all that is printed goes to the log."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    die_with_parent()
    if os.getppid() != parent:  # it died before the kernel was told
        os._exit(1)
    quiet = os.open(os.devnull, os.O_RDONLY)
    os.dup2(quiet, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for handle in {quiet, log} - {0, 1, 2}:
        os.close(handle)
    # Last words must be in the log when the process is killed.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()
    faulthandler.register(ASK_WHERE, all_threads=True)


def folder_of(folder: str, resident: int) -> str:
    """Where a resident's sockets are, under the zygote's `folder`; "" without one."""
    return os.path.join(folder, str(resident)) if folder else ""


def _keep_sockets_in(folder: str) -> None:
    """Multiprocessing's own choice would be a folder that stays behind when this process is killed."""
    if folder:
        os.mkdir(folder, 0o700)
        current_process()._config["tempdir"] = folder  # type: ignore[attr-defined]  # children inherit it


def _serve(pipe: "Connection[Any, Any]") -> None:
    try:
        with _built(pipe.recv()) as arm:
            _answer(pipe, arm)
    except (EOFError, BrokenPipeError):
        return
    except BaseException as error:
        with contextlib.suppress(OSError):
            pipe.send(told(error, doing="waiting for its turn"))


def _answer(pipe: "Connection[Any, Any]", arm: InProcessArm) -> None:
    try:
        pipe.send(Answer(value=arm.checksum(), setup_s=arm.setup_s))
        while True:
            what, *given = pipe.recv()
            if what == "close":
                return
            value = getattr(arm, what)(*given)
            pipe.send(Answer(value=value, setup_s=arm.setup_s))
    except (EOFError, BrokenPipeError, ArmError):
        raise
    except Exception as error:
        # A killed loader worker makes itself heard by a signal, so an error may also come between two orders.
        raise arm.told(error, "waiting for its turn") from error


def _built(order: Order) -> InProcessArm:
    os.environ.clear()
    os.environ.update(order.environment)
    os.chdir(order.folder)
    sys.path[:] = order.path
    sys.argv[:] = order.argv
    if order.threads is not None and torch.get_num_threads() != order.threads:
        torch.set_num_threads(order.threads)
    try:
        workload = load(order.reference)
    except (Exception, SystemExit) as error:
        raise told(error, doing="loading the target") from error
    return InProcessArm(workload, order.recipe, seed=order.seed, owns_group=True)
