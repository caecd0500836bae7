"""What the tests of this room share: the pages of all records are drawn once."""

import pytest

from netdyno.reports import html
from reports import specimens


@pytest.fixture(scope="session")
def sources():
    """The HTML page of every record, by the record's name."""
    return {name: html.render(record) for name, record in specimens.every().items()}
