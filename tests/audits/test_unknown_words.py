"""Texts and the vocabulary they are looked up in."""

from dataclasses import replace

import pytest

from netdyno.audits._specimens import specimen
from netdyno.audits.unknown_words import rate, unknown_words


def words(view):
    return {word for text in view.train.x for word in text.split()}


@pytest.mark.parametrize("seed", range(5))
def test_a_vocabulary_of_the_same_texts_is_silent(seed):
    view = specimen("text", seed=seed)
    assert unknown_words(replace(view, notes={"vocabulary": words(view)})) is None
    assert unknown_words(view) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_vocabulary_of_other_spelling_is_flagged_with_the_spelling_that_cures(seed):
    lower = words(specimen("text", seed=seed))
    capital = lambda part: replace(part, x=[text.title() for text in part.x])
    finding = unknown_words(specimen("text", seed=seed, train=capital, val=capital, notes={"vocabulary": lower}))
    assert "in lower case" in finding.fix
    assert finding.because["unknown"] > 0.9
    assert finding.because["unknown_respelled"] < 0.1


def test_the_rate_above_the_threshold_is_flagged_and_below_it_is_not():
    view = specimen("text")
    known = sorted(words(view))
    few, many = known[:2], known[::2]
    assert rate(view.train.x, frozenset(known)) == 0.0
    assert unknown_words(replace(view, notes={"vocabulary": many})) is not None
    assert unknown_words(replace(view, notes={"vocabulary": [word for word in known if word != few[-1]]})) is None
