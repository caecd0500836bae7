"""What a server says when it cannot have its packages or its address."""

import pytest

from netdyno import listening
from netdyno.errors import NetdynoError


def test_a_missing_package_is_named_with_how_to_have_it():
    with pytest.raises(NetdynoError, match="no_such_package") as told:
        listening.needed(("json", "no_such_package"), cannot="cannot serve", extra="ship")
    assert told.value.what == "cannot serve"
    assert told.value.hint == "pip install 'netdyno[ship]'"
    listening.needed(("json",), cannot="cannot serve", extra="ship")


def test_an_address_that_is_taken_is_said_with_the_hint():
    with listening.listen("127.0.0.1", 0, backlog=1, hint="take another") as first:
        port = first.getsockname()[1]
        with pytest.raises(NetdynoError, match=f"cannot listen on `127.0.0.1`, port `{port}`") as told:
            listening.listen("127.0.0.1", port, backlog=1, hint="take another")
    assert told.value.hint == "take another"
