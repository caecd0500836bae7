"""The accuracy guard's decision: holds, broken, or how many rows it would take to tell."""

import numpy as np
import pytest

from netdyno.verdicts.paired_accuracy import judged, renumbered


def rows(right, wrong, lost=0, won=0):
    control = [1.0] * (right + lost) + [0.0] * (wrong + won)
    treatment = [1.0] * right + [0.0] * lost + [0.0] * wrong + [1.0] * won
    return control, treatment


def test_no_row_lost_of_six_hundred_cannot_tell_half_a_per_cent_and_says_how_many_rows_would():
    found = judged(*rows(580, 17), limit=0.005)
    assert found.decision == "cannot tell"
    assert found.needs == 765
    assert "765" in found.says


def test_no_row_lost_of_a_thousand_holds_half_a_per_cent():
    assert judged(*rows(960, 40), limit=0.005).decision == "holds"


def test_one_row_in_ten_lost_is_broken():
    found = judged(*rows(500, 40, lost=60), limit=0.005)
    assert found.decision == "broken"
    assert found.drop.low > 0.005
    assert found.p_value < 1e-9
    assert (found.lost, found.won) == (60, 0)


def test_rows_that_are_won_count_against_those_lost():
    found = judged(*rows(4900, 40, lost=30, won=30), limit=0.005)
    assert found.drop.middle == 0
    assert found.p_value == 1.0
    assert found.decision == "holds"


def test_a_drop_of_the_limit_itself_is_never_told():
    found = judged(*rows(950, 45, lost=5), limit=0.005)
    assert found.decision == "cannot tell"
    assert found.needs is None
    assert "any number" in found.says


def test_graded_quality_in_0_to_1_is_compared_as_it_is():
    chance = np.random.default_rng(0)
    control = chance.uniform(0.6, 1.0, 400)
    found = judged(control.tolist(), (control - 0.1 * chance.uniform(0, 1, 400)).tolist(), limit=0.02)
    assert found.drop.middle == pytest.approx(0.05, abs=0.005)
    assert found.decision == "broken"
    assert found.p_value is None


def test_a_squared_error_is_compared_relative_to_its_own_size():
    chance = np.random.default_rng(0)
    control = -chance.chisquare(1, 2000)
    assert judged(control.tolist(), (1.001 * control).tolist(), limit=0.005).decision == "holds"
    assert judged(control.tolist(), (1.2 * control).tolist(), limit=0.005).decision == "broken"
    found = judged(control.tolist(), (control * chance.normal(1.0, 0.3, 2000)).tolist(), limit=0.005)
    assert found.decision == "cannot tell"
    assert found.needs > 2000


def test_equal_answers_hold_even_on_a_few_rows_of_graded_quality():
    assert judged([-0.1, -0.2, -0.3], [-0.1, -0.2, -0.3], limit=0.005).decision == "holds"
    assert judged([-0.1, -0.2, -0.3], [-0.1, -0.2, -0.3001], limit=0.005).decision == "cannot tell"


def test_a_row_answered_with_no_number_is_a_row_lost():
    found = judged([-0.1] * 50, [-0.1] * 49 + [float("nan")], limit=0.005)
    assert found.decision == "broken"
    assert "no number" in found.says
    assert found.treatment == found.treatment  # no NaN leaves for the record


def test_rows_that_cannot_be_paired_are_refused():
    with pytest.raises(ValueError):
        judged([1.0], [1.0, 0.0], limit=0.005)
    with pytest.raises(ValueError):
        judged([], [], limit=0.005)


def test_an_other_order_of_classes_is_named_and_two_classes_mixed_up_are_not():
    control = [0, 1, 2, 3] * 20
    assert renumbered(control, [(one + 1) % 4 for one in control]) == {0: 1, 1: 2, 2: 3, 3: 0}
    assert renumbered(control, [{1: 2, 2: 1}.get(one, one) for one in control]) == {1: 2, 2: 1}
    assert renumbered(control, control) is None
    assert renumbered(control, [0] * 80) is None
    assert renumbered([], []) is None


def test_the_decision_holds_its_level_at_a_true_drop_of_the_limit():
    """Where the true drop is the limit, "holds" and "broken" are each wrong: both together at most about 5 in 100."""
    chance = np.random.default_rng(1)
    wrong = 0
    for _ in range(300):
        lost, won, _ = chance.multinomial(1000, [0.03, 0.01, 0.96])
        control, treatment = rows(900 - int(lost), 100 - int(won), lost=int(lost), won=int(won))
        wrong += judged(control, treatment, limit=0.02).decision != "cannot tell"
    assert wrong / 300 <= 0.09
