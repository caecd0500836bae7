"""How a winner is confirmed, against scores that are known."""

import random

from netdyno.learning import sweep
from netdyno.learning.trainings import TimeIsUpError
from netdyno.records.study import Run
from netdyno.records.trial import Change

ON = (Change(id="on"),)


class Scores:
    """A stand-in for trainings: no time passes, scores are a gain and noise."""

    seconds = None

    def __init__(self, gain, *, noise=0.02, luck=0, runs=1000):
        self.gain, self.noise, self.luck, self.left, self.asked = gain, noise, luck, runs, []

    def listener(self, _):
        """Nobody listens."""

    def seconds_left(self):
        """No time passes, as long as there are runs."""
        return self.seconds

    def expected_s(self):
        return 1.0

    def run(self, recipe, seed, *, stage, knob):
        if self.left == 0:
            raise TimeIsUpError
        self.left -= 1
        self.asked.append((recipe, seed))
        draw = random.Random(f"{self.luck} {seed} {len(recipe)}")
        score = 0.5 + draw.gauss(0, self.noise) + self.gain * len(recipe)
        return Run(stage=stage, knob=knob, recipe=recipe, seed=seed, updates=1, batch_size=1, score=score)


def confirmed(scores, level=0.99):
    return sweep.confirm(scores, (), ON, (1001, 1002, 1003, 1004, 1005), level=level, stage="reg", knob="on")


def test_a_clear_gain_needs_one_look():
    before, after = confirmed(Scores(0.5))
    assert list(before) == list(after) == [1001, 1002, 1003, 1004, 1005]


def test_a_clear_loss_ends_after_the_fewest_pairs():
    before, _ = confirmed(Scores(-0.5))
    assert list(before) == [1001, 1002, 1003]


def test_what_is_likelier_a_loss_is_given_up_after_the_fewest_pairs():
    before, _ = confirmed(Scores(-0.05), level=0.999)
    assert list(before) == [1001, 1002, 1003]


def test_what_a_second_look_can_hardly_show_gets_none():
    before, after = confirmed(Scores(0.004, noise=0.02, luck=1), level=0.999)
    assert 3 <= len(before) == len(after) <= 5


def test_what_is_open_and_likelier_a_gain_gets_as_many_seeds_again():
    before, after = confirmed(Scores(0.02))
    assert list(before) == list(after)
    assert list(before)[5:] == [1501, 1502, 1503, 1504, 1505]


def test_a_second_look_that_would_take_the_time_of_other_knobs_is_left_out():
    scores = Scores(0.02)
    scores.seconds = 39.0
    before, _ = confirmed(scores)
    assert len(before) == 5
    scores = Scores(0.02)
    scores.seconds = 40.0
    assert len(confirmed(scores)[0]) == 10


def test_where_time_runs_out_in_the_second_look_the_pairs_there_are_decide():
    before, after = confirmed(Scores(0.02, runs=14))
    assert list(before) == list(after)
    assert len(before) == 7


def test_two_looks_err_no_more_often_than_two_levels_say():
    from netdyno.verdicts import study

    wrong = 0
    for luck in range(600):
        before, after = confirmed(Scores(0.0, luck=luck), level=0.90)
        wrong += study.is_better(study.effect(before, after, 0.90), pairs=len(before))
    assert wrong < 0.1 * 600  # one side of 90 %, twice, is a tenth at most


def test_a_race_leaves_half_behind_and_the_control_runs_along():

    class Racing(Scores):
        def known_scores(self, recipe, seeds):
            mine = [seed for one, seed in self.asked if one == recipe and seed in seeds]
            return dict.fromkeys(mine, 0.5 + sum(map(len, map(str, recipe))))

    scores = Racing(0.0)
    recipes = [(Change(id=letter),) for letter in "abcd"]
    sweep.race(scores, recipes, (), (1, 2, 3), stage="reg", knob="on")
    asked = [sum(seed == one for recipe, seed in scores.asked if recipe) for one in (1, 2, 3)]
    assert asked == [4, 2, 1]
    assert [seed for recipe, seed in scores.asked if not recipe] == [1, 2, 3]
