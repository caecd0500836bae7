"""How two preparations of the same records differ: named by the simplest account."""

import numpy as np
import pytest

from netdyno.verdicts.preprocessing import compared, differing

CHANCE = np.random.default_rng(0)
COARSE = CHANCE.uniform(size=(12, 3, 4, 4))
PICTURES = list(np.kron(COARSE, np.ones((1, 1, 4, 4))) * np.array([1.0, 0.7, 0.4])[None, :, None, None])
TEXTS = [[3, 7, 5], [4, 9], [8, 2, 6, 5], [1]]


def padded(ids, *, left=False, length=6):
    pad = [0] * (length - len(ids))
    return np.array([*pad, *ids] if left else [*ids, *pad])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: one[::-1], "reversed"),
        (lambda one: one[[2, 0, 1]], "another order ([1, 2, 0])"),
        (lambda one: one.transpose(0, 2, 1), "height and width have changed places"),
        (lambda one: one.transpose(1, 2, 0), "the channels come last"),
        (lambda one: 255 * one, "the range is another"),
        (lambda one: (one - 0.4) / 0.2, "normalisation is another"),
    ],
)
def test_it_is_named(change, words):
    found = compared(PICTURES, [change(one) for one in PICTURES])
    assert words in " and ".join(found.kinds)


def test_the_same_way_has_no_difference():
    assert not compared(PICTURES, [one.astype(np.float32) for one in PICTURES]).kinds


def test_padding_on_the_other_side_is_named_with_the_side_of_training():
    found = compared([padded(ids) for ids in TEXTS], [padded(ids, left=True) for ids in TEXTS])
    assert found.kinds == ("the padding is on the other side",)
    assert "right in training" in found.says


def test_other_words_are_not_taken_for_padding():
    found = compared([padded(ids) for ids in TEXTS], [padded([one + 1 for one in ids], left=True) for ids in TEXTS])
    assert "the padding is on the other side" not in found.kinds
    assert found.kinds


def test_records_of_any_length_are_compared_one_by_one():
    same = differing(np.array, np.array, TEXTS)
    other = differing(np.array, lambda ids: np.array(ids) + 3, TEXTS)
    assert not same.kinds
    assert other.kinds
