"""How many requests go together."""

import pytest

from netdyno.serving.batches import Costs, costs_of, take

EVEN = Costs((1, 2, 4, 8), (1.0, 2.0, 4.0, 8.0))
CHEAP = Costs((1, 2, 4, 8), (1.0, 1.1, 1.3, 1.6))


def test_rows_are_padded_up_to_a_size_that_can_be_run():
    assert [CHEAP.size_for(rows) for rows in (1, 2, 3, 5, 8)] == [1, 2, 4, 8, 8]
    assert Costs((1, 8), (1.0, 2.0), exact=False).size_for(5) == 5


def test_more_rows_than_the_largest_size_cost_several_batches():
    assert CHEAP.of(19) == pytest.approx(1.6 + 1.6 + 1.3)
    assert CHEAP.of(16) == pytest.approx(3.2)


def test_all_that_wait_go_together_when_company_is_cheap():
    assert take([1] * 7, CHEAP) == 7
    assert take([1] * 30, CHEAP) == 8


def test_one_goes_alone_when_company_saves_nothing():
    assert take([1] * 8, EVEN) == 1


def test_a_smaller_batch_goes_first_when_padding_would_cost_more():
    assert take([1] * 5, Costs((1, 4, 8), (1.0, 1.2, 2.2))) == 4
    assert take([1] * 7, Costs((1, 4, 8), (1.0, 1.2, 2.0))) == 7


def test_a_request_larger_than_every_size_goes_alone():
    assert take([20, 1, 1], CHEAP) == 1
    assert take([1, 20], CHEAP) == 1


def test_a_larger_batch_is_never_held_for_cheaper_than_a_smaller_one():
    assert costs_of({1: 3.0, 4: 1.0, 2: 2.0}).seconds == (1.0, 1.0, 1.0)


def test_a_row_of_a_full_queue_costs_what_the_cheapest_batch_says():
    assert CHEAP.per_row == pytest.approx(0.2)
