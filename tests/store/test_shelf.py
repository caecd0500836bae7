"""Records on disk: whole or not at all."""

import errno
import os
import resource
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from netdyno.errors import StoreError
from netdyno.records.environment import Ceilings
from netdyno.records.record import Plan, Record, Target
from netdyno.store import Store
from netdyno.store.shelf import slug

TARGET = Target(name="digits", source="work.py:Digits", item="image", items_per_step=32, steps_per_epoch=50)


def record(run="2026-11-30-digits-3f2a", *, made_at="2026-11-30T10:00:00+00:00", finished=False, command="x"):
    return Record(
        id=run, made_by="netdyno 0.1.0", made_at=made_at, command=command, target=TARGET, plan=Plan(), finished=finished
    )


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "lab")
    yield store
    for summary in store.runs():
        store.release(summary.id)


def files(store):
    return sorted(path.name for path in store.folder.rglob("*") if path.is_file() and path.suffix != ".lock")


def three_lines(error):
    lines = str(error.value).splitlines()
    assert [line.split()[0] for line in lines] == ["error:", "because", "hint:"]
    return str(error.value)


def test_a_saved_record_reads_back_equal(store):
    store.save(record())
    assert store.load("2026-11-30-digits-3f2a") == record()


def test_a_record_is_found_by_a_part_of_its_id_by_its_path_and_as_the_last(store):
    path = store.save(record())
    for name in ("3f2a", "2026-11-30", str(path), "last"):
        assert store.load(name).id == "2026-11-30-digits-3f2a"


def test_a_part_that_fits_two_runs_names_them(store):
    store.save(record("2026-11-30-digits-aaaa"))
    store.save(record("2026-11-30-digits-bbbb"))
    with pytest.raises(StoreError, match="digits-aaaa") as error:
        store.load("2026-11-30")
    assert "digits-bbbb" in three_lines(error)


@pytest.mark.parametrize("name", ["nobody", "last", "nowhere/x.json"])
def test_a_run_that_is_not_there_is_three_lines(store, name):
    with pytest.raises(StoreError) as error:
        store.load(name)
    three_lines(error)


def test_runs_are_newest_first(store):
    store.save(record("old", made_at="2026-11-29T10:00:00+00:00"))
    store.save(record("new", made_at="2026-11-30T10:00:00+00:00"))
    assert [summary.id for summary in store.runs()] == ["new", "old"]


def test_a_broken_file_is_listed_with_its_reason_and_does_not_hide_the_others(store):
    store.save(record("well"))
    (store.shelf / "torn.json").write_bytes(b'{"schema_version": 1, "id": "to')
    (store.shelf / "newer.json").write_bytes(b'{"schema_version": 999}')
    broken = {summary.id: summary.broken for summary in store.runs()}
    assert broken["well"] is None
    assert broken["torn"]
    assert "newer" in broken["newer"]
    assert [each.id for each in store.records()] == ["well"]
    assert store.load("last").id == "well"


def test_a_broken_record_that_is_asked_for_names_its_file(store):
    store.save(record("well"))
    (store.shelf / "torn.json").write_bytes(b"{")
    with pytest.raises(StoreError) as error:
        store.load("torn")
    assert "torn.json" in three_lines(error)


def test_ids_say_day_and_name_and_are_never_used_twice(store, monkeypatch):
    draws = iter(["3f2a", "3f2a", "77aa"])
    monkeypatch.setattr("netdyno.store.shelf.secrets.token_hex", lambda _: next(draws))
    first = store.new_id("garage:Digits")
    store.save(record(first))
    assert first.endswith("-garage-digits-3f2a")
    assert store.new_id("garage:Digits").endswith("-77aa")


def test_a_name_of_nothing_but_signs_still_makes_a_file_name():
    assert slug("::/..") == "run"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO])
def test_a_write_that_fails_leaves_the_old_record_and_nothing_else(store, monkeypatch, number):
    store.save(record(command="first"))
    before = files(store)

    def refuse(handle, data):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr("netdyno.store.disk.os.write", refuse)
        with pytest.raises(StoreError) as error:
            store.save(record(command="second"))
    three_lines(error)
    assert files(store) == before
    assert store.load("last").command == "first"


def test_a_disk_that_fills_up_halfway_leaves_no_half_record(store, monkeypatch):
    real, room = os.write, [100]

    def fill(handle, data):
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(handle, bytes(data)[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr("netdyno.store.disk.os.write", fill)
    with pytest.raises(StoreError, match="full"):
        store.save(record())
    assert files(store) == []


def test_a_short_write_is_continued(store, monkeypatch):
    real = os.write
    monkeypatch.setattr("netdyno.store.disk.os.write", lambda handle, data: real(handle, bytes(data)[:7]))
    store.save(record())
    assert store.load("last") == record()


def test_a_real_limit_on_file_size_reads_as_a_full_disk(tmp_path):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

    code = (
        "import sys; from netdyno.store.disk import write_whole; from pathlib import Path\n"
        "from netdyno.errors import StoreError\n"
        "try: write_whole(Path(sys.argv[1]), b'x' * 1000)\n"
        "except StoreError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, str(tmp_path / "a.json")],
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "full" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="a folder's rights don't bind root; the monkeypatched cases cover it")
def test_a_read_only_folder_is_three_lines(store, tmp_path):
    store.folder.mkdir()
    store.folder.chmod(0o500)
    with pytest.raises(StoreError, match="allow"):
        store.save(record())


def test_a_file_in_place_of_the_folder_is_three_lines(tmp_path):
    (tmp_path / "lab").write_text("I was here first")
    with pytest.raises(StoreError) as error:
        Store(tmp_path / "lab").save(record())
    assert "file where the folder should be" in three_lines(error)
    assert (tmp_path / "lab").read_text() == "I was here first"


def test_a_number_that_json_cannot_hold_writes_nothing(store):
    with pytest.raises(StoreError, match="finite"):
        store.save(msgspec.structs.replace(record(), wall_s=float("nan")))
    assert files(store) == []


WRITER = """
import sys, time, msgspec
from netdyno.records.record import Record
from netdyno.store import Store
store = Store(sys.argv[1])
record = msgspec.json.decode(sys.argv[2].encode(), type=Record)
store.save(record)
print("saved", flush=True)
if len(sys.argv) > 3:
    number = 0
    while True:
        number += 1
        store.save(msgspec.structs.replace(record, command="x" * (number % 7) * 10_000))
time.sleep(60)
"""


def writer(store, *more):
    text = msgspec.json.encode(record()).decode()
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store.folder), text, *more], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "saved\n"
    return process


def test_two_labs_cannot_write_one_record_and_the_second_learns_who_does(store):
    other = writer(store)
    try:
        with pytest.raises(StoreError, match=str(other.pid)) as error:
            store.save(record())
        three_lines(error)
    finally:
        other.kill()
        other.wait()
    store.save(record())  # the lock went with its process


def test_other_records_can_be_written_beside_a_running_lab(store):
    other = writer(store)
    try:
        store.save(record("another"))
    finally:
        other.kill()
        other.wait()


def test_a_finished_record_is_free_for_others(store):
    store.save(record(finished=True))
    other = writer(store)
    other.kill()
    other.wait()


def test_a_lab_killed_while_it_writes_leaves_a_record_that_opens(store):
    for delay in (0.0, 0.013, 0.029):
        other = writer(store, "busily")
        time.sleep(delay)
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert store.load("last").id == record().id


def test_what_a_killed_writer_left_behind_is_swept_by_the_next(store):
    store.shelf.mkdir(parents=True)
    (store.shelf / f".{record().id}.json.abc.part").write_bytes(b"half")
    path = store.save(record())
    assert list(store.shelf.iterdir()) == [path]


def test_evidence_is_named_by_its_bytes_and_kept_once(store):
    name = store.keep(b"trace")
    assert store.keep(b"trace") == name
    assert store.kept(name) == b"trace"


def test_evidence_that_was_changed_is_refused(store):
    name = store.keep(b"trace")
    (store.evidence / name).write_bytes(b"tracf")
    with pytest.raises(StoreError, match="do not fit its name"):
        store.kept(name)


def test_ceilings_are_kept_by_environment(store):
    ceilings = Ceilings(environment="abc", threads=2, matmul={"float32": 1e11}, bandwidth=1e10)
    store.save_ceilings(ceilings)
    assert store.load_ceilings("abc") == ceilings
    assert store.load_ceilings("other") is None


def test_broken_ceilings_are_measured_again(store):
    (store.folder / "ceilings").mkdir(parents=True)
    (store.folder / "ceilings" / "abc.json").write_text("{")
    assert store.load_ceilings("abc") is None


def test_the_store_names_the_record_it_wrote_last(store):
    assert store.saved is None
    assert store.save(record()) == store.saved
