"""Which line of the user's own code an error came through."""

import json

import pytest

from netdyno.targets.place import is_users, place_of


def test_the_deepest_line_of_the_users_is_named_and_not_the_librarys():
    with pytest.raises(ValueError) as caught:
        json.loads("{")
    assert place_of(caught.value).startswith(f" ({__file__}:")


def test_what_a_worker_wrote_down_counts_before_where_it_was_raised_again():
    told = ValueError('Caught ValueError in worker.\n  File "/home/ann/work.py", line 12, in read\nValueError: no')
    assert place_of(told) == " (/home/ann/work.py:12)"


def test_an_error_from_nowhere_has_no_place():
    assert place_of(ValueError("no")) == ""
    assert not is_users(json.__file__)
    assert not is_users("<string>")
