"""The page of lints is current, and no wrong form of the catalogue is forgotten."""

from pathlib import Path

from netdyno.lint import _page
from netdyno.lint._base import lints

PAGE = Path(__file__).parents[2] / "docs" / "lint.md"


def test_the_page_is_what_the_command_writes():
    assert PAGE.read_text() == _page.render(), "run `python -m netdyno.lint._page > docs/lint.md`"


def test_every_row_of_the_catalogue_has_a_lint_or_a_reason_and_none_has_both():
    covered = {row for each in lints() for row in each.ledger}
    assert covered | set(_page.NOT_LINTED) == set(_page.ROWS)
    assert covered & set(_page.NOT_LINTED) == set()


def test_rules_that_the_reasons_name_exist():
    import re

    from netdyno.cli._options import files_of

    there = set(files_of("rules"))
    named = {name for _, why in _page.NOT_LINTED.values() for name in re.findall(r"`([a-z]+(?:-[a-z]+)+)`", why)}
    assert named <= there
