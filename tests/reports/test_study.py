"""A search made readable: the terminal and the page."""

import msgspec
import pytest

from netdyno.records.measured import Interval
from netdyno.records.study import Candidate, Curve, Option, Run, Study, StudyPlan, Sweep
from netdyno.records.trial import Change
from netdyno.reports import _study as report
from netdyno.reports import _study_page as page
from netdyno.verdicts import study as verdicts

RATE = Change(id="learning-rate", settings={"factor": 3.0})
BEFORE = {"score": {1: 0.80, 2: 0.81, 3: 0.79}, "seconds": {1: 1.0, 2: 1.1, 3: 0.9}}
AFTER = {"score": {1: 0.90, 2: 0.912, 3: 0.889}, "seconds": {1: 1.05, 2: 1.0, 3: 0.95}}


def swept(**changed):
    effect = Interval(middle=0.1, low=0.08, high=0.12, level=0.99)
    options = (
        Option(change=None, says="as it stands", scores=(0.8, 0.81), mean=0.805),
        Option(change=RATE, says="factor 3", scores=(0.9, 0.91), mean=0.905, effect=effect),
        Option(change=None, says="factor 10", scores=(0.9,), mean=0.9),
        Option(change=None, says="factor 30", failed="it diverged"),
    )
    given = {
        "knob": "learning-rate", "stage": "optim", "asks": "how large a step?", "reason": "sets the step", "options": options,
        "seeds": (1, 2), "verdict": "kept", "chosen": 1, "among": (1, 2), "says": "factor 3 changes the score",
        "curves": (Curve(name="rate", x_name="rate", y_name="score", x=(1, 3, 10), lines={"score": (0.8, 0.9, 0.9)}, log_x=True),),
    }  # fmt: skip
    return Sweep(**{**given, **changed})


def study(**changed):
    first = verdicts.rung("start", (), BEFORE, None, earlier=None, level=0.95)
    second = verdicts.rung("+ learning-rate", (RATE,), AFTER, first, earlier=BEFORE, level=0.95)
    refused = swept(
        knob="residual", verdict="refused", says="no layer of equal width", options=(), chosen=None, among=(), curves=()
    )
    front = [
        Candidate(
            recipe=(), score=score, seconds=score, bytes=0, latency_s=0.0, feasible=score > 0.5, on_front=score > 0.8
        )
        for score in (0.4, 0.7, 0.9)
    ]
    given = {
        "id": "2026-12-01-digits-1a2b", "made_by": "netdyno", "made_at": "2026-12-01", "command": "netdyno learn",
        "target": "work.py:<Digits>", "plan": StudyPlan(), "sweeps": (swept(), refused), "recipe": (RATE,),
        "ladder": (first, second), "candidates": tuple(front), "finished": True, "advice": ("label-errors: 3 of them; look",),
    }  # fmt: skip
    return Study(**{**given, **changed})


def test_the_total_and_what_is_inside_the_noise_are_told():
    told = report.study_info(study())
    assert told.headline.startswith("score +0.100")
    assert told.ladder[1][2].endswith("not distinguishable")
    assert "factor 10" in told.kept[0].among


def test_a_search_that_is_cut_short_says_so():
    told = report.study_info(study(finished=False, recipe=(), ladder=()))
    assert told.headline == "nothing is better than the start beyond noise, and the search is not finished"


@pytest.mark.parametrize("width", [50, 80])
def test_the_terminal_is_as_wide_as_it_is(width):
    told = report.render(study(), width=width)
    assert all(len(line) <= width for line in told.splitlines())
    assert "residual" in told
    assert "no layer of equal width" not in told
    assert "no layer of equal width" in report.render(study(), everything=True, width=width)


def test_the_page_holds_curves_front_and_document_and_escapes_names():
    told = page.render(study())
    assert told.count("<svg") == 2
    assert "&lt;Digits&gt;" in told
    assert "<Digits>" not in told
    assert "2026-12-01-digits-1a2b.json" in told
    assert 'src="http' not in told


def test_an_empty_study_is_a_page_too():
    empty = Study(id="x", made_by="", made_at="", command="", target="t", plan=StudyPlan())
    assert "nothing is better" in page.render(empty)
    assert "nothing is better" in report.render(empty)


def test_a_budget_without_room_for_a_search_does_not_say_that_nothing_is_better():
    start = Run(
        stage="optim",
        knob="start",
        recipe=(),
        seed=1,
        updates=9,
        batch_size=8,
        score=0.9,
        seconds=9.0,
        course=((9, 0.1, 0.9),),
    )
    walk = Run(
        stage="optim",
        knob="learning-rate",
        recipe=(Change(id="range-test"),),
        seed=1,
        updates=9,
        batch_size=8,
        seconds=9.0,
    )
    told = report.study_info(study(recipe=(), ladder=(), sweeps=(), runs=(start, walk)))
    assert told.headline.startswith("there was no time to try anything: a training takes 9")
    assert told.headline.endswith("(`--budget 9m`)")
    tried = msgspec.structs.replace(start, recipe=(RATE,))
    assert report.study_info(study(recipe=(), ladder=(), sweeps=(), runs=(start, tried))).headline.startswith(
        "nothing is better"
    )
