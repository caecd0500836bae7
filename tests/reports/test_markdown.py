"""The summary for a pull request."""

from netdyno.reports import markdown
from reports import specimens


def test_the_summary_begins_with_the_answer():
    first = markdown.render(specimens.golden()).splitlines()[0]
    assert first == "### Digits: 1.82× faster: 12.4 → 6.8 ms per step (95 %: 1.78 to 1.86×)"


def test_the_edits_are_one_block_of_code():
    told = markdown.summary(specimens.golden())
    assert told.code.splitlines()[0].startswith("loader = DataLoader(")
    assert f"```python\n{told.code}\n```" in markdown.render(specimens.golden())


def test_what_was_not_kept_is_told_with_its_reason():
    told = markdown.summary(specimens.golden())
    assert [row[0] for row in told.dropped][1] == "bf16-autocast"
    assert all(row[3] for row in told.dropped)


def test_every_table_row_has_as_many_cells_as_its_head():
    import re

    for record in specimens.every().values():
        tables = re.findall(r"(?:^\|.*\|$\n?)+", markdown.render(record), flags=re.MULTILINE)
        for table in tables:
            cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().splitlines()}
            assert len(cells) == 1


def test_other_peoples_markup_stays_text_and_cannot_leave_its_fence():
    said = markdown.render(specimens.hostile())
    outside = [line for line in said.splitlines() if line.startswith(("#", "|", "-"))]
    assert outside
    assert not any("<script>" in line for line in outside)
    assert "````" in markdown._code("a ``` b")
