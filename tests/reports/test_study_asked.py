"""The answer to one question, as it is read and as it is drawn."""

import pytest

from netdyno.records.measured import Interval
from netdyno.records.study import Curve
from netdyno.reports import _study_asked as report

SCORE = Interval(middle=0.8, low=0.7, high=0.9, level=0.95)
UNKNOWN = Interval(middle=0.6, low=-1e6, high=1e6, level=0.95)
COLUMNS = ("optimizer", "score", "behind", "state, bytes", "")
ROWS = (("adamw", SCORE, None, 2048.0, "best in tuning"), ("<lion>", UNKNOWN, SCORE, 1024.0, "no <b>luck</b>"))


@pytest.mark.parametrize("width", [50, 100])
def test_every_cell_is_told_within_the_width(width):
    told = report.render("adamw was best", COLUMNS, ROWS, width=width)
    assert told.splitlines()[0] == "adamw was best"
    assert "0.800 (0.700 to 0.900)" in told
    assert "2048" in told
    assert all(len(line) <= width for line in told.splitlines())


def test_a_score_of_one_run_has_no_range():
    assert report.in_words(UNKNOWN) == "0.600"


def test_a_page_has_a_figure_for_each_curve_and_one_for_the_choices():
    curve = Curve(name="a", x_name="x", y_name="y", x=(1.0, 2.0), lines={"score": (0.1, 0.2)})
    text = report.page(
        "work.py:Digits: optimizer",
        "adamw",
        columns=COLUMNS,
        rows=ROWS,
        curves=(curve, curve),
        dots=(("adamw", SCORE), ("lion", UNKNOWN)),
    )
    assert text.count("<figure") == 3
    assert text.count("<tr>") == 3
    assert "0.800 (0.700 to 0.900)" in text


def test_what_a_choice_is_called_cannot_break_out_of_the_page():
    text = report.page("<script>", "<img>", columns=COLUMNS, rows=ROWS)
    assert "<lion>" not in text
    assert "<b>luck" not in text
    assert "<script>" not in text
    assert "<table" in text
    assert "<figure" not in text
