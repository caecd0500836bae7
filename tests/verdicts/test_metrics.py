import itertools

import numpy as np
import pytest

from netdyno.errors import NetdynoError
from netdyno.verdicts.metrics import binary, over_classes


def rare(samples=10_000, positives=30, *, shift=0.0, seed=0):
    """Scores of something that happens three times in a thousand; `shift` is how far positives score higher."""
    chance = np.random.default_rng(seed)
    labels = np.zeros(samples, dtype=int)
    labels[:positives] = 1
    return 0.15 + 0.05 * chance.standard_normal(samples) + shift * labels, labels


def test_a_detector_that_never_says_so_is_called_out_at_its_99_7_per_cent():
    scores, labels = rare()
    found = binary(scores, labels)
    assert found.prevalence == pytest.approx(0.003)
    assert found.trivial_accuracy == pytest.approx(0.997)
    assert found.accuracy.middle == pytest.approx(0.997)
    assert found.recall == 0.0
    assert any("99.7 %" in warning and "cannot be told" in warning for warning in found.warnings)


def test_average_precision_stands_beside_the_prevalence_it_gets_for_nothing():
    scores, labels = rare()
    found = binary(scores, labels)
    assert found.average_precision.middle < 0.02
    assert any("0.003 of scores drawn by chance" in warning for warning in found.warnings)


def test_a_good_detector_is_told_that_accuracy_says_little():
    found = binary(*rare(shift=0.6))
    assert found.accuracy.low > found.trivial_accuracy
    assert found.average_precision.low > 0.5
    assert found.auc.low > 0.9
    assert found.warnings == (
        "always giving the commonest answer reaches 99.7 %: accuracy says little of the rarer one",
    )


def test_even_classes_told_apart_raise_no_warning():
    chance = np.random.default_rng(0)
    labels = np.arange(400) % 2
    found = binary(0.5 + 0.3 * chance.standard_normal(400) + 0.5 * (labels - 0.5), labels)
    assert found.warnings == ()
    assert found.auc.low > 0.6


def test_a_score_turned_round_is_below_what_costs_nothing():
    labels = np.arange(400) % 2
    assert "below" in binary(1.0 - labels, labels).warnings[0]


def test_the_numbers_are_those_of_scikit_learn():
    from sklearn import metrics

    chance = np.random.default_rng(3)
    labels = (chance.random(500) < 0.2).astype(int)
    scores = np.clip(0.3 + 0.2 * labels + 0.2 * chance.standard_normal(500), 0, 1)
    found, named = binary(scores, labels), scores >= 0.5
    assert found.f1 == pytest.approx(metrics.f1_score(labels, named))
    assert found.precision == pytest.approx(metrics.precision_score(labels, named))
    assert found.recall == pytest.approx(metrics.recall_score(labels, named))
    assert found.auc.middle == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert found.average_precision.middle == pytest.approx(metrics.average_precision_score(labels, scores))
    assert found.auc.low < found.auc.middle < found.auc.high


def test_a_curve_ends_at_the_prevalence_and_never_rises():
    found = binary(*rare(shift=0.1))
    recalls, precisions = zip(*found.curve, strict=True)
    assert recalls[0] == 0.0
    assert recalls[-1] == 1.0
    assert all(a >= b for a, b in itertools.pairwise(precisions))
    assert precisions[-1] >= found.prevalence


def test_what_cannot_be_known_is_left_out():
    only = binary([0.2, 0.3], [0, 0])
    assert only.auc is None
    assert only.recall is None
    assert "only one class" in only.warnings[-1]
    few = binary([0.9, 0.1, 0.2, 0.3], [1, 0, 0, 0])
    assert (few.auc.low, few.auc.high) == (0.0, 1.0)
    assert "too few" in few.warnings[-1]


@pytest.mark.parametrize(
    ("scores", "labels"), [([0.1], [0, 1]), ([float("nan"), 0.1], [0, 1]), ([0.1, 0.2], [0, 2]), ([], [])]
)
def test_odd_inputs_are_refused(scores, labels):
    with pytest.raises(NetdynoError, match="cannot compute"):
        binary(scores, labels)


def test_classes_stand_beside_the_commonest_answer():
    labels = [0] * 90 + [1] * 8 + [2] * 2
    found = over_classes([0] * 100, labels, names=("dog", "cat", "owl"))
    assert found.accuracy.middle == 0.9
    assert found.balanced_accuracy == pytest.approx(1 / 3)
    assert found.trivial_balanced_accuracy == pytest.approx(1 / 3)
    assert [one.recall.middle for one in found.classes] == [1.0, 0.0, 0.0]
    assert found.classes[1].precision is None
    assert found.classes[2].name == "owl"
    assert "cannot be told" in found.warnings[0]


def test_the_mean_f1_is_that_of_scikit_learn():
    from sklearn.metrics import balanced_accuracy_score, f1_score

    chance = np.random.default_rng(0)
    labels = chance.integers(4, size=300)
    answers = np.where(chance.random(300) < 0.7, labels, chance.integers(4, size=300))
    found = over_classes(answers, labels)
    assert found.macro_f1 == pytest.approx(f1_score(labels, answers, average="macro"))
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(labels, answers))
    assert found.warnings == ()


def test_scores_are_records():
    import msgspec

    found = binary(*rare(samples=200, positives=20, shift=0.2))
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
