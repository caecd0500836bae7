"""The record itself."""

import json as standard

from netdyno.records import codec
from netdyno.reports import json
from reports import specimens


def test_what_is_rendered_can_be_read_back():
    for record in specimens.every().values():
        assert codec.decode(json.render(record).encode()) == record


def test_other_programs_can_read_it():
    assert (
        standard.loads(json.render(specimens.golden()))["attribution"]["shares"][0]["change"]["id"] == "loader-workers"
    )
