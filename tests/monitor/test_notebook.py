"""A run as a card in a notebook."""

from html.parser import HTMLParser

import netdyno
from netdyno.monitor.notebook import POINTS, card, html, sparkline
from netdyno.records.journal import Alert

VOID = {"br", "img"}


class Balanced(HTMLParser):
    """Fails where a tag is not closed, and keeps the words."""

    def __init__(self):
        super().__init__()
        self.open, self.words, self.attributes = [], [], []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.attributes += attributes

    def handle_startendtag(self, tag, attributes):
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(text):
    page = Balanced()
    page.feed(text)
    assert page.open == []
    return page


def test_a_run_shows_its_name_its_updates_its_loss_and_its_alerts(tmp_path):
    with netdyno.watch(run="digits", store=tmp_path, stage="optim", quiet=True) as seen:
        for update in range(1, 5000):
            seen.point("loss", 1 / update, update=update)
        seen.alert(
            Alert(cause="dead", severity="warning", says="half of it is dead", update=3, seconds=0.1, fix="wake it")
        )
        during = seen._repr_html_()
    page = read(during)
    said = "".join(page.words)
    assert all(word in said for word in ("digits", "running", "optim", "half of it is dead", "wake it", "loss 0.0002"))
    (line,) = [value for name, value in page.attributes if name == "d"]
    assert line.count("L") <= POINTS + 2
    assert "ended" in html(seen)


def test_a_watch_that_has_not_begun_has_a_card_too(tmp_path):
    assert "not begun" in netdyno.watch(run="digits", store=tmp_path)._repr_html_()


def test_what_others_have_written_is_no_markup():
    page = read(
        card(
            name="<script>alert(1)</script>", tags={"a": "<b>"}, state="running", updates=3, losses=[],
            alerts=[{"severity": "trip", "says": "<img src=x onerror=y>", "update": 1, "fix": "<i>"}],
        )
    )  # fmt: skip
    assert "<script>alert(1)</script>" in "".join(page.words)
    assert "<img src=x onerror=y>" in "".join(page.words)


def test_a_line_breaks_where_a_loss_is_not_finite():
    line = sparkline([(1, 1.0), (2, 2.0), (3, float("nan")), (4, 1.0)])
    assert line.count("M") == 2
    assert "nan" not in line
    assert sparkline([(1, float("inf"))]) == ""
    assert "NaN" not in sparkline([(1, 1.0)])


def test_colours_are_those_of_the_notebook():
    text = card(name="a", tags={}, state="ended", updates=1, losses=[(1, 1.0), (2, 0.5)], alerts=[])
    assert "currentColor" in text
    assert "background" not in text
    assert "http" not in text
