"""Progress: honest about the time left, and never drawn while something is measured."""

import io
import json

import pytest

from netdyno.cli._options import ProgressForm, duration, share, size
from netdyno.cli._progress import Left, Pace, chosen, json_lines, lines, listening, said
from netdyno.errors import NetdynoError
from netdyno.progress import Event


class Clock:
    """Stands still until told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


def test_with_a_budget_the_time_left_is_what_is_left_of_it(clock):
    pace = Pace(budget_s=60.0, clock=clock)
    clock.now += 20
    assert pace.left(Event("x", 1, 100)) == Left(40.0, at_most=True)


def test_a_budget_that_is_overrun_is_said_so(clock):
    pace = Pace(budget_s=60.0, clock=clock)
    clock.now += 75
    assert said(pace.left(Event("x"))) == "0:15 over budget"


def test_without_a_budget_the_pace_so_far_tells(clock):
    pace = Pace(budget_s=None, clock=clock)
    assert pace.left(Event("x", 0, 10)) is None
    clock.now += 6
    assert pace.left(Event("x", 3, 10)) == Left(14.0, at_most=False)


def test_nothing_is_promised_before_a_second_has_passed(clock):
    pace = Pace(budget_s=None, clock=clock)
    pace.left(Event("x", 0, 10))
    clock.now += 0.5
    assert pace.left(Event("x", 5, 10)) is None


def test_nothing_is_promised_for_work_of_unknown_length(clock):
    pace = Pace(budget_s=None, clock=clock)
    pace.left(Event("x"))
    clock.now += 5
    assert pace.left(Event("x", 3)) is None


def test_new_work_has_a_pace_of_its_own(clock):
    pace = Pace(budget_s=None, clock=clock)
    pace.left(Event("slow", 0, 10))
    clock.now += 60
    assert pace.left(Event("quick", 0, 10)) is None
    clock.now += 2
    assert pace.left(Event("quick", 5, 10)) == Left(2.0, at_most=False)


def test_where_output_is_collected_each_step_is_one_line(clock):
    stream = io.StringIO()
    tell = lines(Pace(budget_s=60.0, clock=clock), stream)
    for event in (Event("baselines", 0, 3), Event("baselines", 1, 3), Event("trying threads", 0)):
        tell(event)
        clock.now += 10
    assert stream.getvalue().splitlines() == [
        "[0:00] baselines (at most 1:00 left)",
        "[0:20] trying threads (at most 0:40 left)",
    ]


def test_json_lines_carry_every_event(clock):
    stream = io.StringIO()
    json_lines(Pace(budget_s=None, clock=clock), stream)(Event("x", 1, 4))
    told = json.loads(stream.getvalue())
    assert (told["doing"], told["done"], told["total"], told["left_s"]) == ("x", 1, 4, None)


@pytest.mark.parametrize(
    ("form", "stream", "expected"),
    [
        (ProgressForm.AUTO, Terminal(), ProgressForm.BAR),
        (ProgressForm.AUTO, io.StringIO(), ProgressForm.LINES),
        (ProgressForm.JSON, Terminal(), ProgressForm.JSON),
    ],
)
def test_a_bar_is_for_terminals(form, stream, expected, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    assert chosen(form, stream) is expected


def test_a_build_server_gets_lines_even_with_a_terminal(monkeypatch):
    monkeypatch.setenv("CI", "true")
    assert chosen(ProgressForm.AUTO, Terminal()) is ProgressForm.LINES


def test_the_bar_draws_when_an_event_comes_and_starts_no_thread():
    import threading

    stream = Terminal()
    before = threading.active_count()
    with listening(ProgressForm.BAR, budget_s=60.0, stream=stream) as tell:
        tell(Event("baselines", 1, 3))
        assert threading.active_count() == before
        assert "baselines" in stream.getvalue()


def test_silence_is_silent():
    stream = io.StringIO()
    with listening(ProgressForm.NONE, stream=stream) as tell:
        tell(Event("x"))
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1m30s", 90), ("1h", 3600), ("500ms", 0.5), ("2 min", 120)]
)
def test_durations(text, seconds):
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "x", "3x", "3m x", "-3s", "1:30"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(NetdynoError, match="duration"):
        duration(text)


def test_shares_and_sizes():
    assert (share("5 %"), share("0.05"), size("1.5GiB")) == (0.05, 0.05, 1610612736)
    for text in ("5", "-1%", "x"):
        with pytest.raises(NetdynoError, match="share"):
            share(text)
    with pytest.raises(NetdynoError, match="memory"):
        size("much")
