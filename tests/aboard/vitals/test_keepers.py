"""Who holds a graph, and on which line it grows."""

import sys
from collections import deque
from functools import lru_cache

import torch

from netdyno.aboard.vitals._keepers import bound, each_bytes, entries, line_of, tensors_in, variables

LOOP = """
total = 0
seen = []
for x in data:
    total += f(x)
    seen.append(x)
    hidden = g(x, hidden)
"""


def test_the_line_that_adds_is_told_and_not_the_one_that_began(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(LOOP)
    lines = {name: line_of(name, str(file), "<module>") for name in ("total", "seen", "self.seen", "hidden", "other")}
    assert lines == {"total": 5, "seen": 6, "self.seen": 6, "hidden": 7, "other": None}


def test_a_file_that_is_not_there_has_no_line():
    assert line_of("total", "/nowhere/train.py", "main") is None


def test_tensors_are_found_in_the_ends_of_lists_and_in_pairs():
    one, two = torch.zeros(1), torch.ones(1)
    assert list(tensors_in([one, 3, two])) == [one, two]
    assert list(tensors_in((one, two))) == [one, two]
    assert list(tensors_in({"loss": [one]})) == [one]
    assert list(tensors_in(3)) == []


def test_what_is_made_to_hold_no_more_than_so_many_is_bound():
    assert bound(deque(maxlen=8))
    assert not bound(deque())
    assert not bound([])
    assert not bound(lru_cache(maxsize=None)(abs))
    assert bound(lru_cache(maxsize=16)(abs))


def test_entries_and_their_bytes():
    cached = lru_cache(maxsize=None)(abs)
    cached(3)
    assert [entries(one) for one in ([1, 2], {"a": 1}, cached, 5)] == [2, 1, 1, None]
    assert each_bytes([torch.zeros(4)]) == 16
    assert each_bytes([(torch.zeros(4), torch.zeros(2))]) == 24
    assert each_bytes([1.0]) is None
    assert each_bytes([]) is None


def test_looking_at_variables_keeps_nothing_alive():
    import weakref

    class Held:
        pass

    def user():
        held = Held()
        watched = weakref.ref(held)
        names = {named.name for named in variables(sys._getframe())}
        del held
        return names, watched

    names, watched = user()
    assert "held" in names
    assert watched() is None
