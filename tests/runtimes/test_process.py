"""A process that holds a model: what it answers, what happens when it fails or dies, and that nobody is left behind."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from netdyno.errors import ArmError
from netdyno.records.deployment import Port, Running, Signature
from netdyno.records.trial import Change
from netdyno.runtimes._nursery import Nursery
from netdyno.runtimes._process import Process

SIGNATURE = Signature(inputs=(Port(name="rows", dtype="float32", shape=(3,)),))
# A program that answers as a child does, without any runtime: twice the rows, or whatever goes wrong.
TOY = """
import os, sys, time
import numpy as np
from netdyno.runtimes import _base, _child

class Toy:
    def load(self, folder, running):
        def call(arrays):
            first = arrays[0][0, 0]
            if first == 13: raise RuntimeError("thirteen is not answered")
            if first == 99: os.kill(os.getpid(), 9)
            if first == 60: time.sleep(60)
            return (arrays[0] * 2,)
        return call

_base.read = lambda change: Toy()
_child.main()
"""


def rows(first=1.0, count=2):
    array = np.ones((count, 3), np.float32)
    array[0, 0] = first
    return (array,)


def toy(**settings):
    return Process(Change(id="toy"), Path("nowhere"), Running(threads=1), SIGNATURE, program=("-c", TOY), **settings)


def gone(pid):
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_it_answers_times_and_weighs_itself():
    with toy() as process:
        assert np.array_equal(process.run(rows())[0], rows()[0] * 2)
        assert process.hold(rows(count=8)) > 0
        burst = process.burst(2, 0.01, least=4, most=10)
        assert 4 <= len(burst.seconds) <= 10
        assert process.memory() > 1_000_000


def test_a_call_that_fails_is_told_and_the_next_is_answered():
    with toy() as process:
        with pytest.raises(ArmError, match="RuntimeError: thirteen is not answered"):
            process.run(rows(13))
        assert process.run(rows())[0].shape == (2, 3)


def test_rows_of_another_form_never_reach_the_model():
    with toy() as process, pytest.raises(ArmError, match="float64"):
        process.run((np.ones((2, 3)),))


def test_a_process_that_is_killed_is_told_with_its_status():
    with toy() as process, pytest.raises(ArmError, match="ended with status -9"):
        process.run(rows(99))


def test_a_call_that_hangs_is_given_up():
    with toy(timeout_s=1.0) as process, pytest.raises(ArmError, match="no answer within 1 s"):
        process.run(rows(60))
    assert gone(process._child.pid)


def test_what_cannot_be_loaded_says_why_and_leaves_no_process():
    with pytest.raises(ArmError, match="No such file"):
        Process(Change(id="eager"), Path("nowhere"), Running(), SIGNATURE)


def test_a_nursery_forks_processes_that_answer_alike_and_end_with_their_pipes():
    with Nursery() as nursery:
        forked = nursery.start(open(os.devnull, "wb"))  # noqa: SIM115
        other = nursery.start(open(os.devnull, "wb"))  # noqa: SIM115
        assert forked.poll() is None
        forked.stdin.close()
        assert forked.wait(10.0) == 0
        assert other.poll() is None
        other.kill()
        other.wait(10.0)
    assert gone(forked.pid)
    assert gone(other.pid)


def test_a_nursery_that_is_gone_is_told():
    nursery = Nursery()
    os.kill(nursery._process.pid, signal.SIGKILL)
    with pytest.raises(ArmError, match="the process that starts the others is gone"):
        nursery.start(open(os.devnull, "wb"))  # noqa: SIM115
    nursery.close()
