"""Which processes of a script are watched, and what is known of their end."""

import json
import os

import pytest

from netdyno.monitor.script import Wishes, last_word, trains, watched, written
from netdyno.store.journal import Journal, Run, new_info

HERE = Wishes("run", "store", parent=os.getppid())


@pytest.fixture(autouse=True)
def _no_rank(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)


def test_the_script_itself_and_each_rank_are_watched_from_the_start(monkeypatch):
    assert trains(HERE, words=("python", "train.py"))
    assert not trains(HERE._replace(parent=-1), words=("python", "evaluate.py"))
    assert not trains(HERE._replace(launches=True), words=("python", "-m", "torch.distributed.run", "train.py"))
    monkeypatch.setenv("RANK", "1")
    assert trains(HERE._replace(parent=-1), words=("python", "train.py"))


def test_a_loaders_worker_is_not(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert not trains(HERE, words=("python", "-c", "spawn_main(...)", "--multiprocessing-fork"))


def test_the_command_stays_what_it_is():
    argv, environment = watched(("/usr/bin/python3", "train.py", "--", "-x"), HERE)
    assert argv == ("/usr/bin/python3", "train.py", "--", "-x")
    assert Wishes(**json.loads(environment["NETDYNO_WATCH"])) == HERE


def journal(store, process=7):
    return Journal.create(store, new_info("run", tags={}, process=process))


def test_the_journal_of_a_process_is_found_by_it(tmp_path):
    mine = journal(tmp_path)
    journal(tmp_path, process=8).close("ended", 0)
    mine.close("ended", 0)
    assert written(tmp_path, 7).folder == mine.folder
    assert written(tmp_path, 9) is None


def test_a_process_that_was_killed_is_said_to_be(tmp_path):
    mine = journal(tmp_path)
    mine.event("evaluation", 12)
    mine.flush()
    last_word(Run(mine.folder), -9)
    end = Run(mine.folder).end
    assert (end["reason"], end["update"], end["says"]) == ("failed", 12, "killed by SIGKILL")
    mine.close("ended", 12)


@pytest.mark.parametrize(
    ("reason", "status", "told"), [("ended", 3, "stopped"), ("ended", 0, "ended"), ("failed", 1, "failed")]
)
def test_an_exit_status_is_told_where_the_process_could_not(tmp_path, reason, status, told):
    mine = journal(tmp_path)
    mine.close(reason, 4)
    last_word(Run(mine.folder), status)
    assert Run(mine.folder).state() == told
