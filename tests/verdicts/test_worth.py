import pytest

from netdyno.errors import NetdynoError
from netdyno.verdicts import worth

COSTS = ((0.0, 5.0), (100.0, 0.0))


def test_a_confusion_table_counts_by_true_class_and_answer():
    assert worth.confusion([0, 0, 1], [0, 1, 1], 2) == [[1, 1], [0, 1]]


def test_a_cost_matrix_of_another_size_is_refused():
    with pytest.raises(NetdynoError, match="3 classes"):
        worth.cost([[1, 0, 0], [0, 1, 0], [0, 0, 1]], COSTS)


def test_what_is_doubtful_is_reviewed_and_the_queue_is_told():
    given, probabilities = [0, 0, 1, 1], [[0.999, 0.001], [0.6, 0.4], [0.7, 0.3], [0.01, 0.99]]
    gate = worth.with_review(given, probabilities, COSTS, review=1.0)
    assert gate.queue == 0.5
    assert gate.cost == pytest.approx(0.5)


def test_a_review_that_costs_more_than_the_mistakes_is_never_asked():
    assert worth.with_review([0, 1], [[0.9, 0.1], [0.1, 0.9]], COSTS, review=1e6).queue == 0.0


def test_a_return_is_what_is_won_over_what_was_spent():
    assert worth.returned(0.5, samples=1000, spent=500.0) == 0.0
    with pytest.raises(ValueError, match="spent"):
        worth.returned(1.0, samples=1, spent=0.0)
