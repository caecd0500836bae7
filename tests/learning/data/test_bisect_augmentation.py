"""The transform that does harm is found on real trainings (ledger A-082)."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from netdyno.learning.data.bisect_augmentation import bisect


def upside_down(images, chance):
    return images[:, ::-1, ::-1]


def noisy(images, chance):
    return images + chance.normal(0, 0.05, images.shape)


def lighter(images, chance):
    return images * chance.uniform(0.9, 1.1, (len(images), 1, 1))


TRANSFORMS = {"lighter": lighter, "upside_down": upside_down, "noisy": noisy}


def train(chosen, seed):
    """A linear model on digits: half of its training samples pass through the chosen transforms."""
    images, labels = load_digits(return_X_y=True)
    chance = np.random.default_rng(seed)
    order = chance.permutation(len(labels))
    own, held = order[:300], order[300:800]
    x = images[own].reshape(-1, 8, 8) / 16
    for name in chosen:
        some = chance.random(len(x)) < 0.7
        x[some] = TRANSFORMS[name](x[some], chance)
    fitted = LogisticRegression(max_iter=300).fit(x.reshape(len(x), -1), labels[own])
    return fitted.score(images[held] / 16, labels[held])


def test_a_planted_transform_that_breaks_labels_is_found_and_the_others_are_not():
    found = bisect(train, tuple(TRANSFORMS), seeds=(1, 2, 3, 4))
    assert found.guilty == ("upside_down",)
    assert "`upside_down` takes" in found.says


def test_harmless_transforms_are_not_told_from_noise():
    found = bisect(train, ("lighter", "noisy"), seeds=(1, 2, 3))
    assert found.guilty == ()
    assert "noise between seeds" in found.says


def test_all_off_comes_first_and_then_one_at_a_time():
    asked = []
    bisect(lambda chosen, seed: asked.append(chosen) or float(seed), ("a", "b"), seeds=(1, 2))
    assert asked == [(), (), ("a",), ("a",), ("b",), ("b",), ("a", "b"), ("a", "b")]


def test_harm_of_two_together_is_said_to_be_of_both():
    noise = {1: 0.001, 2: -0.001, 3: 0.0}
    found = bisect(
        lambda chosen, seed: 0.9 - 0.5 * (len(chosen) == 2) + noise[seed] * len(chosen), ("a", "b"), seeds=(1, 2, 3)
    )
    assert "interaction" in found.says


def test_one_seed_is_refused():
    with pytest.raises(ValueError, match="at least two"):
        bisect(train, ("noisy",), seeds=(1,))
