"""The page of audits is current."""

from pathlib import Path

from netdyno.audits import _page

PAGE = Path(__file__).parents[2] / "docs" / "audits.md"


def test_the_page_is_what_the_command_writes():
    assert PAGE.read_text() == _page.render(), "run `python -m netdyno.audits._page > docs/audits.md`"
