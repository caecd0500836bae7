"""A look at data, made readable."""

import json
from html.parser import HTMLParser

import pytest

from netdyno.audits._base import wrong
from netdyno.audits._pictures import shown
from netdyno.audits._profile import profile
from netdyno.audits._specimens import specimen
from netdyno.records.audit import Audit
from netdyno.records.diagnosis import Outcome
from netdyno.reports import _audit as report
from netdyno.reports import _audit_page as page


def look(*outcomes, modality="table", **fields):
    told = {"profile": profile(specimen(modality)), "finished": True} | fields
    return Audit(
        id="a",
        made_by="netdyno",
        made_at="2026-01-01",
        command="netdyno data x",
        target="data.csv",
        outcomes=outcomes,
        **told,
    )


def found(rule="leak", modality="table", says="40 of 120 samples", confidence=0.9, **fields):
    view = specimen(modality)
    exhibits = tuple(shown(view, view.train, at, f"copy {at}") for at in range(5))
    finding = wrong(says, fix="drop them", because={"share": 0.33}, exhibits=exhibits, confidence=confidence, **fields)
    return Outcome(rule=rule, state="found" if confidence > 0.7 else "suspected", finding=finding)


CLEAR = Outcome(rule="sound", state="clear")
SKIPPED = Outcome(rule="elsewhere", state="skipped", reason="the data are table")


def test_silence_says_how_many_looked_and_how_many_did_not_apply():
    text = report.render(look(CLEAR, SKIPPED))
    assert "nothing found: 1 audits looked" in text
    assert "looked and found nothing: sound" in text
    assert "1 audits (`--everything` says why)" in text
    assert "the data are table" in report.render(look(CLEAR, SKIPPED), everything=True)


def test_a_finding_names_its_samples_and_its_fix():
    text = report.render(look(found(), CLEAR))
    assert "1 thing is wrong with the data" in text
    assert "drop them" in text
    assert "train 2" in text
    assert "train 4" not in text
    assert "train 4" in report.render(look(found(), CLEAR), everything=True)


def test_a_suspicion_is_said_to_be_one():
    text = report.render(look(found(confidence=0.5)))
    assert "1 suspected" in text
    assert "confidence 50 %" in text


def test_a_look_that_was_cut_short_says_so():
    assert "not finished" in report.render(look(CLEAR, finished=False))


@pytest.mark.parametrize("width", [50, 80])
def test_it_fits_the_page(width):
    for modality in ("table", "images", "text"):
        text = report.render(look(found(modality=modality), CLEAR, SKIPPED, modality=modality), width=width)
        assert max(map(len, text.splitlines())) <= width


def test_colour_is_never_needed():
    plain = report.render(look(found(), CLEAR))
    assert "\x1b" not in plain
    assert "\x1b" in report.render(look(found(), CLEAR), colour=True)


def test_a_histogram_shows_what_is_not_empty():
    assert report.spark((0.0, 0.001, 1.0)) == " ▁█"


def test_programs_get_the_document_with_the_findings_in_order():
    told = json.loads(report.as_json(look(found("b"), found("a", confidence=0.5), CLEAR)))
    assert [(each["says"], each["state"]) for each in told["findings"]] == [
        ("40 of 120 samples", "found"),
        ("40 of 120 samples", "suspected"),
    ]
    assert [each["state"] for each in told["outcomes"]] == ["found", "suspected", "clear"]
    assert told["profile"]["modality"] == "table"


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.addresses, self.seen = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        told = dict(attributes)
        self.addresses += [told[name] for name in ("src", "href") if name in told]

    def handle_data(self, data):
        self.seen.append(data)


def test_the_page_asks_no_network_for_anything_and_shows_the_samples():
    read = Page(page.render(look(found(modality="images"), CLEAR, SKIPPED, modality="images")))
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in read.addresses)
    assert sum(address.startswith("data:") for address in read.addresses) == 5
    assert any("copy 3" in text for text in read.seen)


def test_what_a_data_set_is_called_cannot_break_out_of_the_page():
    evil = "</script><script>alert(1)</script>"
    text = page.render(look(found(says=f"1 {evil}")))
    assert evil not in text
    odd = look(found(), pictures={"splits": 'x" onerror="alert(1)', "neighbours": 'x" onerror="alert(1)'})
    assert "onerror" not in page.render(odd).partition('id="record-data"')[0]


def test_both_pictures_of_the_splits_are_on_the_page():
    text = page.render(look(found(), pictures={"splits": "QUJD", "neighbours": "REVG"}))
    assert text.count("base64,QUJD") == text.count("base64,REVG") == 1
    assert "pure noise" in text


def test_the_document_inside_the_page_can_be_read_again():
    audit = look(found(), CLEAR)
    inside = page.render(audit).partition('id="record-data">')[2].partition("</script>")[0]
    assert json.loads(inside)["id"] == "a"
