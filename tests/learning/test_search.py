import math
import random
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from msgspec.structs import replace as replace_run

from netdyno.errors import NetdynoError
from netdyno.knobs import _base as knobs
from netdyno.learning import joint, search, together, trainings
from netdyno.records.diagnosis import Finding, Outcome, Saving
from netdyno.records.study import Run, Study, StudyPlan
from netdyno.records.trial import Change
from netdyno.reports import _study as report
from netdyno.store.documents import Documents


class Turning:
    """What all knobs of this file share: nothing is refused, and a setting changes no more than the score."""

    asks: ClassVar[str] = "how much?"
    reason: ClassVar[str] = "it damps"
    effort_min: ClassVar[float] = 1.0
    order: ClassVar[int] = 1

    def refuses(self, setup):
        return None

    def turned(self, setup):
        return setup

    def code(self):
        return "pass"


@dataclass(frozen=True)
class Sharpness(Turning):
    value: float = 1.0
    stage: ClassVar[str] = "optim"

    def settings(self, setup):
        return tuple(replace(self, value=value) for value in (0.1, 1.0, 10.0))


@dataclass(frozen=True)
class Placebo(Turning):
    kind: str = "a"
    stage: ClassVar[str] = "reg"

    def settings(self, setup):
        return tuple(replace(self, kind=kind) for kind in "abc")


@dataclass(frozen=True)
class Depth(Turning):
    layers: int = 2
    stage: ClassVar[str] = "arch"

    def refuses(self, setup):
        return "the model has one layer"

    def settings(self, setup):
        return (replace(self, layers=3),)


KINDS = {"sharpness": Sharpness, "placebo": Placebo, "depth": Depth}
GAINS = {0.1: 0.00, 1.0: 0.10, 10.0: -0.2}


def gained(value):
    """What the settings win, and less the farther another one is from the best."""
    return GAINS.get(value, GAINS[1.0] - 0.1 * abs(math.log10(value)))


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    for module in (knobs, search, together, trainings):
        monkeypatch.setattr(module, "catalogue", lambda: KINDS)
    monkeypatch.setattr(together, "MOST_JOINT", 15)  # two knobs are searched by then
    return Clock()


def trainer(clock, *, log=None, fails=()):
    """Scores that depend on the recipe, and on the seed by noise; every run takes a second."""

    def train(setup, *, seed, recipe=(), stage, knob, prune=None, **_):
        clock.now += 1.0
        if log is not None:
            log.append((knob, seed, tuple(recipe)))
        draw = random.Random(f"{seed} {[(change.id, change.settings) for change in recipe]}")
        gain = sum(gained(change.settings["value"]) for change in recipe if change.id == "sharpness")
        score = round(0.5 + gain + 0.02 * draw.gauss(0, 1) + 0.01 * (seed % 3), 6)
        failed = "it diverged" if any(change in fails for change in recipe) else None
        return Run(
            stage=stage, knob=knob, recipe=tuple(recipe), seed=seed, updates=10, batch_size=8, seconds=1.0, failed=failed,
            score=None if failed else score, loss=None if failed else 1 - score, course=((5, 0.9, 0.1), (10, 1 - score, score)),
        )  # fmt: skip

    return train


def learned(tmp_path, clock, *, budget_s=300.0, log=None, fails=(), outcomes=(), resume=None, **plan):
    plan = StudyPlan(budget_s=budget_s, seeds=(1, 2, 3, 4, 5), **plan)
    return search.learn(
        "garage:tiny", plan, store=Documents(tmp_path), trainer=trainer(clock, log=log, fails=fails), clock=clock,
        examine=lambda _: outcomes, resume=resume,
    )  # fmt: skip


def verdicts(study):
    return {sweep.knob: sweep.verdict for sweep in study.sweeps}


def test_what_helps_is_kept_and_a_placebo_is_not(tmp_path, clock):
    study = learned(tmp_path, clock)
    assert [(change.id, change.settings["value"]) for change in study.recipe] == [("sharpness", 1.0)]
    assert verdicts(study)["sharpness"] == "kept"
    assert verdicts(study)["placebo"] in ("not distinguishable", "no better")
    assert study.finished


def test_a_knob_that_does_not_apply_says_why(tmp_path, clock):
    sweep = next(each for each in learned(tmp_path, clock).sweeps if each.knob == "depth")
    assert (sweep.verdict, sweep.says) == ("refused", "the model has one layer")


def test_placebos_are_kept_in_hardly_any_search(tmp_path, clock, monkeypatch):
    kept = 0
    for number in range(20):
        monkeypatch.setitem(GAINS, 1.0, 0.0)
        monkeypatch.setattr(
            random, "Random", lambda text, _real=random.Random, number=number: _real(f"{number} {text}")
        )
        kept += bool(learned(tmp_path / str(number), clock, only=("placebo",)).recipe)
        monkeypatch.undo()
        for module in (knobs, search, together, trainings):
            monkeypatch.setattr(module, "catalogue", lambda: KINDS)
    assert kept <= 4  # one in twenty on average


def test_the_winner_of_a_race_is_confirmed_on_seeds_that_did_not_choose_it(tmp_path, clock):
    log = []
    learned(tmp_path, clock, log=log, only=("sharpness",))
    raced = {seed for knob, seed, recipe in log if knob == "sharpness" and recipe and seed < search.FRESH}
    fresh = [seed for knob, seed, recipe in log if knob == "sharpness" and recipe and seed > search.FRESH]
    assert raced == {1, 2, 3}
    assert fresh == [search.FRESH + seed for seed in (1, 2, 3, 4, 5)]


def test_the_ladder_is_climbed_on_seeds_of_its_own_and_tells_each_step(tmp_path, clock):
    study = learned(tmp_path, clock)
    assert [rung.name for rung in study.ladder] == ["start", "+ sharpness"]
    assert study.ladder[1].cells["score"].told
    assert study.ladder[1].cells["score"].delta.middle == pytest.approx(0.1, abs=0.04)


def test_no_run_is_made_twice_and_a_search_that_was_cut_short_goes_on(tmp_path, clock):
    log = []
    whole = learned(tmp_path, clock, log=log)
    assert len(log) == len({(seed, str(recipe)) for _, seed, recipe in log})
    half = replace_runs(whole, 20)
    again = []
    resumed = learned(tmp_path, clock, log=again, resume=half)
    assert resumed.recipe == whole.recipe
    assert not {(seed, str(recipe)) for _, seed, recipe in again} & {(run.seed, str(run.recipe)) for run in half.runs}


def replace_runs(study, count):
    from msgspec.structs import replace as changed

    return changed(study, runs=study.runs[:count], sweeps=(), recipe=(), ladder=(), done=(), finished=False)


def test_every_run_is_on_disk_before_the_next_begins(tmp_path, clock):
    def cut_off(*told, **more):
        if len(seen) == 7:
            raise KeyboardInterrupt
        seen.append(1)
        return real(*told, **more)

    seen, real = [], trainer(clock)
    shelf = Documents(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        search.learn(
            "garage:tiny",
            StudyPlan(seeds=(1, 2, 3, 4, 5)),
            store=shelf,
            trainer=cut_off,
            clock=clock,
            examine=lambda _: (),
        )
    assert len(shelf.load(Study).runs) == 7


def test_where_the_stages_could_ask_few_of_their_knobs_the_search_over_all_gets_the_time(tmp_path, clock):
    pytest.importorskip("optuna")
    study = learned(tmp_path, clock, budget_s=30.0)
    alone = [each for each in study.sweeps if each.knob != together.JOINT]
    assert [each.verdict for each in alone if each.knob in ("sharpness", "placebo")] == ["not run", "not run"]
    assert "are left of its stage" in next(each.says for each in alone if each.knob == "sharpness")
    assert {run.knob for run in study.runs} == {"start", "joint"}
    assert [change.id for change in study.recipe] == ["sharpness"]
    assert clock.now <= 30.0 + 10.0  # a proof that was begun is finished


def test_the_proof_takes_the_start_and_the_ladder_from_runs_that_are_there(tmp_path, clock):
    pytest.importorskip("optuna")
    log = []
    study = learned(tmp_path, clock, budget_s=30.0, log=log)
    seeds = together.proof_seeds(study.plan)
    assert sorted(seed for _, seed, recipe in log if recipe == ()) == sorted(
        (1, *seeds)
    )  # 1 chooses, and is the first trial
    assert [rung.name for rung in study.ladder] == ["start", "1 searched together"]


def test_regularisers_wait_for_the_split_test(tmp_path, clock):
    """Ledger A-209."""
    shift = Finding(
        says="training and validation differ", layer="generalisation", saves=Saving(low=0, high=0), because={}, fix="split anew",
        id="covariate-shift", stage="data",
    )  # fmt: skip
    study = learned(tmp_path, clock, outcomes=(Outcome(rule="covariate-shift", state="found", finding=shift),))
    assert "placebo" not in verdicts(study)
    assert any("no regulariser was tried" in said for said in study.failures)
    assert "placebo" in verdicts(learned(tmp_path, clock))


def test_a_knob_of_another_stage_is_refused_while_a_stage_is_under_way(clock):
    """Ledger A-162."""
    field = trainings.Trainings(setup=None, kept=lambda _: None, trainer=trainer(clock), clock=clock, stage="reg")
    with pytest.raises(NetdynoError, match="cannot move `sharpness` now"):
        field.run((Change(id="sharpness", settings={"value": 1.0}),), 1, stage="reg", knob="placebo")


def test_every_run_has_a_stage_and_a_knob(tmp_path, clock):
    """Ledger A-294."""
    study = learned(tmp_path, clock)
    assert all(run.stage in ("data", "arch", "optim", "reg", "deploy") and run.knob for run in study.runs)


def test_a_run_without_a_tag_is_refused(clock):
    field = trainings.Trainings(setup=None, kept=lambda _: None, trainer=trainer(clock), clock=clock)
    with pytest.raises(NetdynoError, match="without its tags"):
        field.run((), 1, stage="reg", knob="")


def test_a_setting_that_diverges_is_told_and_not_kept(tmp_path, clock):
    study = learned(tmp_path, clock, fails=(Change(id="sharpness", settings={"value": 1.0}),))
    assert all(change.settings.get("value") != 1.0 for change in study.recipe)
    sweep = next(each for each in study.sweeps if each.knob == "sharpness")
    assert any(option.failed == "it diverged" for option in sweep.options)


def test_a_start_that_does_not_train_is_an_error_in_three_lines(tmp_path, clock):
    def broken(setup, *, seed, recipe=(), stage, knob, **_):
        return Run(
            stage=stage, knob=knob, recipe=(), seed=seed, updates=0, batch_size=8, failed="RuntimeError: no such layer"
        )

    with pytest.raises(NetdynoError, match="does not train as it is written"):
        search.learn("garage:tiny", StudyPlan(seeds=(1, 2, 3)), store=Documents(tmp_path), trainer=broken, clock=clock)


def test_the_level_of_one_confirmation_pays_for_all_of_them(clock):
    few, all_ = StudyPlan(only=("placebo",)), StudyPlan()
    assert 0.95 < search.level_of(few) < search.level_of(all_) < 1.0
    wrong = [(1 - level) / 2 for level in (search.level_of(all_), search.level_of_whole(all_))]
    assert search.LOOKS * (len(KINDS) * wrong[0] + wrong[1]) == pytest.approx(0.05)


@pytest.mark.parametrize("width", [50, 100])
def test_the_report_says_what_was_kept_why_and_what_was_not(tmp_path, clock, width):
    told = report.render(learned(tmp_path, clock), width=width)
    assert "sharpness" in told
    assert "value 1" in told
    assert "the ladder" in told.lower()
    assert all(len(line) <= width for line in told.splitlines())


def test_a_joint_search_finds_what_the_knobs_offer(tmp_path, clock):
    pytest.importorskip("optuna")
    field = trainings.Trainings(setup=None, kept=lambda _: None, trainer=trainer(clock), clock=clock)
    space = joint.space({"sharpness": Sharpness, "placebo": Placebo}, field, ())
    assert [(one.knob, one.field) for one in space] == [("sharpness", "value"), ("placebo", None)]
    assert space[0].low < 0.1
    assert space[0].high > 10.0


def test_a_passenger_of_a_joint_recipe_is_put_out(clock):
    """It wins nothing, and was drawn because every knob is drawn."""
    field = trainings.Trainings(setup=None, kept=lambda _: None, trainer=trainer(clock), clock=clock)
    helps, passenger = (
        Change(id="sharpness", settings={"value": 1.0}),
        Change(id="sharpness-too", settings={"value": 10.0}),
    )
    harms = Change(id="sharpness", settings={"value": 10.0})
    left, worth = joint.without_passengers(field, (helps, passenger), (), stage="optim", seeds=(1, 2, 3, 4, 5, 6))
    assert left[0] == helps
    assert worth["sharpness"] > 0.05
    assert joint.without_passengers(field, (harms,), (), stage="optim", seeds=(1, 2, 3)) == ((), {})
    assert joint.without_passengers(field, (helps,), (), stage="optim", seeds=(1, 2, 3))[0] == (helps,)


def test_what_refuses_to_stand_beside_the_others_is_left_out_of_a_joint_recipe():
    """A warm-up beside one-cycle was a failed run."""
    from learning.test_range_test import setup, sgd

    warmed = Change(id="warmup", settings={"form": "share", "amount": 0.1})
    cycle = Change(id="schedule", settings={"course": "one-cycle", "peak": 1.0})
    cosine = Change(id="schedule", settings={"course": "cosine", "peak": 1.0})
    plain = setup(sgd)
    assert joint.sensible((warmed, cycle), plain) == (cycle,)
    assert joint.sensible((warmed, cosine), plain) == (warmed, cosine)


def test_a_search_begins_with_the_recipe_that_it_is_told(tmp_path, clock):
    pytest.importorskip("optuna")
    log = []
    field = trainings.Trainings(setup=None, kept=lambda _: None, trainer=trainer(clock, log=log), clock=clock)
    told = (Change(id="sharpness", settings={"value": 0.5}), Change(id="placebo", settings={"kind": "c"}))
    ranked = joint.search(
        field, {"sharpness": Sharpness, "placebo": Placebo}, (), stage="optim", seeds=(1,), name="told", folder=tmp_path,
        seed=0, trials=8, first=(told,),
    )  # fmt: skip
    assert log[0][2] == told
    assert len(ranked) == len({str(recipe) for recipe in ranked}) > 1


def test_runs_of_sweeps_are_trials_that_a_search_draws_conclusions_from(tmp_path, clock):
    optuna = pytest.importorskip("optuna")
    field = trainings.Trainings(setup=None, kept=lambda _: None, trainer=trainer(clock), clock=clock)
    best = (Change(id="sharpness", settings={"value": 1.0}),)
    for recipe in ((), best, (Change(id="placebo", settings={"kind": "b"}),), (Change(id="unknown", settings={}),)):
        field.run(recipe, 1, stage="optim", knob="sharpness")
        field.run(recipe, 2, stage="optim", knob="sharpness")
    kinds = {"sharpness": Sharpness, "placebo": Placebo}
    ranked = joint.search(
        field, kinds, (), stage="optim", seeds=(1,), name="known", folder=tmp_path, seed=0, trials=3
    )  # three are there: none is made
    assert ranked[0] == best
    assert len(ranked) == 3
    assert optuna.logging.get_verbosity() == optuna.logging.WARNING


def test_a_search_that_suggests_only_what_it_knows_is_over(tmp_path, clock):
    pytest.importorskip("optuna")
    log = []
    field = trainings.Trainings(setup=None, kept=lambda _: None, trainer=trainer(clock, log=log), clock=clock)
    joint.search(
        field, {"placebo": Placebo}, (), stage="optim", seeds=(1,), name="small", folder=tmp_path, seed=0, trials=10_000
    )
    assert 0 < len(log) <= 4


def test_the_luckiest_under_one_seed_loses_to_its_neighbour_on_the_others(clock):
    field = trainings.Trainings(setup=None, kept=lambda _: None, trainer=trainer(clock), clock=clock)
    lucky, good = (
        (Change(id="sharpness", settings={"value": 10.0}),),
        (Change(id="sharpness", settings={"value": 1.0}),),
    )
    for one in (lucky, good):
        field.run(one, 1, stage="optim", knob="joint")
    raced = {"first": 1, "stage": "optim", "seeds": (2, 3, 4)}
    assert joint.best_of_several(field, (lucky, good), **raced) == good
    assert joint.best_of_several(field, (), **raced) is None


def test_a_race_that_runs_out_of_time_ends_with_who_led_when_all_had_run_alike(clock):
    field = trainings.Trainings(setup=None, kept=lambda _: None, trainer=trainer(clock), clock=clock)
    bad, good = (Change(id="sharpness", settings={"value": 10.0}),), (Change(id="sharpness", settings={"value": 1.0}),)
    for one in (bad, good):
        field.run(one, 1, stage="optim", knob="joint")
    field.deadline = clock.now + 3.5  # seed 2 for both, seed 3 for one
    assert joint.best_of_several(field, (bad, good), first=1, stage="optim", seeds=(2, 3, 4)) == good
    assert len(field.known_scores(good)) == 3


def test_a_search_that_goes_on_later_has_the_same_longest_training(clock):
    """Time that was spent, and dearer runs, don't make the space another one: its trials would begin anew."""
    from learning.test_range_test import setup, sgd

    field = trainings.Trainings(setup=setup(sgd), kept=lambda _: None, trainer=trainer(clock), clock=clock)
    plan = StudyPlan(budget_s=130.0, seeds=(1, 2))
    field.scores((), together.proof_seeds(plan), stage="optim", knob="start")
    first = together._longest(field, plan)
    assert first == pytest.approx((130.0 - 4.0) / together.AFFORDABLE * field.setup.updates)
    field.note(replace_run(field.runs[0], recipe=(Change(id="sharpness", settings={}),), seconds=50.0))
    assert together._longest(field, plan) == first
    assert together._longest(field, StudyPlan(budget_s=1.0, seeds=(1, 2))) == field.setup.updates


def test_as_many_race_as_there_is_time_for(clock):
    field = trainings.Trainings(setup=None, kept=lambda _: None, trainer=trainer(clock), clock=clock)
    recipes = [(Change(id="sharpness", settings={"value": float(value)}),) for value in range(1, 9)]
    for one in recipes:
        field.run(one, 1, stage="optim", knob="joint")
    told = {"first": 1, "most": 6}
    assert joint.affordable(field, recipes, seconds=100.0, **told) == 6
    assert joint.affordable(field, recipes, seconds=8.5, **told) == 4  # two seconds each
    assert joint.affordable(field, recipes, seconds=1.0, **told) == 0


def test_a_recipe_that_was_searched_as_a_whole_is_one_rung(tmp_path, clock, monkeypatch):
    pytest.importorskip("optuna")
    monkeypatch.setattr(joint, "without_passengers", lambda _, found, *told, **more: (found, {"sharpness": 0.1}))
    monkeypatch.setattr(
        joint, "best_of_several", lambda *told, **more: (Change(id="sharpness", settings={"value": 1.0}), Change(id="placebo", settings={"kind": "b"}))
    )  # fmt: skip
    monkeypatch.setattr(together, "_likelier", lambda *told: True)
    study = learned(tmp_path, clock)
    sweep = next(each for each in study.sweeps if each.knob == together.JOINT)
    assert sweep.verdict == "kept"
    assert "without it -0.1 where it was chosen" in sweep.options[1].says
    assert [rung.name for rung in study.ladder] == ["start", "2 searched together"]
    assert "2 changes" in report.render(study)


def test_what_looked_better_in_its_sweep_is_where_a_search_begins(tmp_path, clock):
    study = learned(tmp_path, clock)
    sweep = next(each for each in study.sweeps if each.knob == "placebo")
    better = [
        option
        for option in sweep.options
        if option.effect is not None and option.effect.middle > 0 and len(option.scores) >= 3
    ]
    assert ("placebo" in {change.id for change in together.likely(study)}) == bool(better)
