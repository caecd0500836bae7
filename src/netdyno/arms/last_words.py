"""What a side says when it fails: one sentence, and the end of what it wrote."""

import errno
import re
import signal
import traceback

import torch

from netdyno.errors import ArmError, NetdynoError
from netdyno.targets.place import is_users, place_of

MOST = 4000  # characters of last words that are kept: a long traceback, not a log
MEMORY_GONE = ("out of memory", "not enough memory", "can't allocate memory", "cannot allocate memory")


def told(error: BaseException, *, doing: str) -> ArmError:
    """The ArmError that stands for whatever was raised while the arm was `doing` something."""
    if isinstance(error, ArmError):
        return error
    kind = "ran out of memory" if out_of_memory(error) else "failed"
    says = f"the side {kind} while {doing}: `{sentence_of(error)}`{place_of(error)}"
    return ArmError(says, last_words=tail("".join(traceback.format_exception(error))))


def tail(text: str) -> str | None:
    """The end of a text, whole lines, or None when it is empty."""
    text = text.strip()
    if len(text) > MOST:
        text = text[-MOST:].partition("\n")[2]
    return text or None


def ended(code: int) -> str:
    """How a process ended, from the exit code that subprocess and multiprocessing give.

    >>> ended(-9)
    'killed by SIGKILL'
    """
    return f"ended with exit status {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def stack_of_user(stacks: str) -> tuple[str, str]:
    """From stacks as faulthandler writes them: the user's line, and the one stack it is in; "" without one."""
    for stack in re.split(r"\n(?=Thread |Current thread )", stacks):
        for file, line in re.findall(r'File "([^"]+)", line (\d+)', stack):  # the deepest call stands first
            if is_users(file):
                return f" ({file}:{line})", stack.strip()[:MOST]
    return "", ""


def out_of_memory(error: BaseException) -> bool:
    """True when memory ran out, however Python or PyTorch puts it; also when that was the cause of the error."""
    cause = error.__cause__
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    if isinstance(error, RuntimeError) and any(words in str(error).lower() for words in MEMORY_GONE):
        return True
    return cause is not None and out_of_memory(cause)


def sentence_of(error: BaseException) -> str:
    """An error as one sentence: its kind and what it says first."""
    if isinstance(error, NetdynoError):
        return f"{error.what}, because {error.because}"
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    name = type(error).__name__
    if not lines:
        return name
    # An error that crossed a worker's border carries the worker's traceback as its text: the cause stands last.
    line = lines[-1].strip() if "Traceback (most recent call last)" in str(error) else lines[0].strip()
    return line if line.startswith(f"{name}:") else f"{name}: {line}"
