import math
import random

from netdyno.learning.proposals import NEAR, SPREAD, Done, Proposals
from netdyno.learning.space import Dimension, asked
from netdyno.records.trial import Change


def change(knob, **settings):
    return Change(id=knob, settings=settings)


RATE = Dimension("rate", (change("rate", factor=3.0),), "factor", 0.01, 100.0)
KIND = Dimension("kind", tuple(change("kind", name=name) for name in "abc"))
ONLY = Dimension("only", (change("only"),))
MANY = tuple(Dimension(f"knob-{at}", (change(f"knob-{at}", at=1), change(f"knob-{at}", at=2))) for at in range(20))
SPACE = (RATE, KIND, ONLY, *MANY)


def moved(before, after):
    return {
        one.knob for one in SPACE if any(before[name] != after[name] for name in before if name.rstrip("?") == one.knob)
    }


def proposals(*bases, seed=0):
    return Proposals(SPACE, [asked(base, SPACE) for base in bases], seed=seed)


def test_the_first_trials_move_a_few_knobs_of_a_recipe_that_stands():
    base = asked((), SPACE)
    counts = [
        len(moved(base, proposals((), seed=seed).next(number, []))) for seed in range(20) for number in range(SPREAD)
    ]
    assert min(counts) >= 1
    assert 0.1 * len(SPACE) < sum(counts) / len(counts) < 0.3 * len(SPACE)


def test_later_trials_are_near_the_best_and_some_are_left_to_the_sampler():
    best, worst = asked((change("kind", name="b"),), SPACE), asked((change("kind", name="c"),), SPACE)
    done = [Done(best, 0.9), Done(worst, 0.1), Done(worst, 0.2)]
    drawn = [proposals((), seed=seed).next(SPREAD + number, done) for seed in range(20) for number in range(20)]
    near = [each for each in drawn if each is not None]
    assert 0.8 * NEAR < len(near) / len(drawn) < 1.2 * NEAR
    assert all(1 <= len(moved(best, each)) <= 3 for each in near)


def test_the_same_trial_of_the_same_search_is_proposed_the_same():
    one, again, other = (proposals((), seed=seed).next(3, []) for seed in (4, 4, 5))
    assert one == again
    assert one != other


def test_without_any_trial_that_trained_the_sampler_draws():
    assert proposals(()).next(SPREAD, []) is None


def test_what_is_proposed_can_be_drawn():
    base = (change("rate", factor=100.0), change("kind", name="a"))
    for number in range(200):
        drawn = Proposals(SPACE, [asked(base, SPACE)], seed=number).moved(asked(base, SPACE), 3, random.Random(number))
        assert RATE.low <= drawn["rate"] <= RATE.high
        assert isinstance(drawn["rate?"], bool)
        assert drawn["kind"] in (-1, 0, 1, 2)
        assert drawn["only"] in (-1, 0)


def test_a_number_moves_by_a_factor_of_two_or_so():
    base = asked((change("rate", factor=1.0),), (RATE,))
    found = [Proposals((RATE,), [base], seed=seed).next(0, []) for seed in range(300)]
    steps = [abs(math.log(each["rate"])) for each in found if each["rate?"]]
    assert 0.6 < len(steps) / len(found) < 0.9
    assert 0.3 < sorted(steps)[len(steps) // 2] < 0.7
