"""The page of rules is current."""

from pathlib import Path

from netdyno.records.diagnosis import STAGES
from netdyno.rules import _page

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_page_is_what_the_command_writes():
    assert PAGE.read_text() == _page.render(), "run `python -m netdyno.rules._page > docs/rules.md`"


def test_every_stage_says_what_it_is_about():
    assert set(_page.ABOUT) == set(STAGES)
