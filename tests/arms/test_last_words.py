"""What a failed side is quoted with."""

import pytest
import torch

from netdyno.arms.last_words import MOST, ended, out_of_memory, stack_of_user, tail, told
from netdyno.errors import ArmError, TargetError

STACKS = """Thread 0x1 (most recent call first):
  File "{torch}/_tensor.py", line 5 in backward

Current thread 0x2 (most recent call first):
  File "{torch}/nn/modules/module.py", line 7 in _call_impl
  File "/home/ann/work.py", line 12 in read
  File "/home/ann/work.py", line 99 in main
""".format(torch=torch.__path__[0])


def test_the_deepest_line_of_the_users_and_its_stack_are_found_among_stacks():
    place, stack = stack_of_user(STACKS)
    assert place == " (/home/ann/work.py:12)"
    assert stack.startswith("Current thread")


def test_stacks_without_a_line_of_the_users_name_none():
    assert stack_of_user(STACKS.replace("/home/ann", torch.__path__[0])) == ("", "")


def test_a_long_text_is_cut_at_a_line():
    text = tail("\n".join(f"line {number}" for number in range(10_000)))
    assert len(text) <= MOST
    assert text.startswith("line ")
    assert text.endswith("line 9999")
    assert tail(" \n") is None


def test_memory_that_ran_out_while_a_part_was_built_is_still_memory():
    error = TargetError("cannot build `train`", because="it raised MemoryError", hint="")
    error.__cause__ = MemoryError()
    assert out_of_memory(error)
    assert "ran out of memory" in told(error, doing="being built").says


@pytest.mark.parametrize("error", [ValueError("out of range"), RuntimeError("shape mismatch"), OSError(2, "no file")])
def test_other_errors_are_not_taken_for_memory(error):
    assert not out_of_memory(error)


def test_an_arm_error_is_told_as_it_is():
    error = ArmError("it was closed")
    assert told(error, doing="stepping") is error


def test_an_error_without_words_is_named():
    assert told(AssertionError(), doing="stepping").says == "the side failed while stepping: `AssertionError`"


def test_a_signal_is_named_and_a_status_told():
    assert ended(-9) == "killed by SIGKILL"
    assert ended(3) == "ended with exit status 3"
