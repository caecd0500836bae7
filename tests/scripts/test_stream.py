"""Reading what those aboard told, while it is being written."""

from netdyno.scripts.stream import read

HELLO = '{{"is": "hello", "pid": {pid}, "ppid": 1, "rank": {rank}, "at": {at}}}\n'
TICK = '{{"is": "tick", "updates": {updates}, "iterations": {updates}}}\n'


def told(folder, pid, *, updates=0, rank="null", at=1.0, more=""):
    text = HELLO.format(pid=pid, rank=rank, at=at) + TICK.format(updates=updates) + more
    (folder / f"{pid}.jsonl").write_text(text)


def test_a_line_that_is_half_written_is_left_out(tmp_path):
    told(tmp_path, 7, updates=3, more='{"is": "tick", "updates": 4, "it')
    assert read(tmp_path).updates == 3
    assert read(tmp_path).troubles == ()


def test_the_last_tick_wins(tmp_path):
    told(tmp_path, 7, updates=3, more=TICK.format(updates=9))
    assert read(tmp_path).updates == 9


def test_a_line_that_cannot_be_understood_is_named_and_the_rest_is_read(tmp_path):
    told(tmp_path, 7, updates=3, more='{"is": "stopped", "reason": 5}\n')
    assert read(tmp_path).updates == 3
    assert "reason" in read(tmp_path).troubles[0].says


def test_the_one_that_trains_goes_before_its_launcher(tmp_path):
    told(tmp_path, 7, at=1.0)
    told(tmp_path, 8, updates=5, rank='"1"', at=2.0)
    told(tmp_path, 9, updates=5, rank='"0"', at=3.0)
    assert read(tmp_path).training.pid == 9


def test_of_two_without_a_rank_the_one_with_more_updates_is_taken(tmp_path):
    told(tmp_path, 7, updates=5)
    told(tmp_path, 8, updates=6)
    assert read(tmp_path).training.pid == 8


def test_an_empty_folder_has_no_story(tmp_path):
    assert read(tmp_path).training is None
    assert read(tmp_path).updates == 0
    assert read(tmp_path).losses == ()
