"""A better model by a staged search: each choice is answered by its own experiment over seeds."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec

from netdyno.cli import _options as options
from netdyno.cli._declare import Argument, Option
from netdyno.cli._endings import DONE, NO
from netdyno.cli._options import STORE, AsJson, Budget, Progress, ProgressForm, Seed, StoreFolder
from netdyno.cli._output import colour, put, tell, width
from netdyno.cli._progress import listening, loading
from netdyno.errors import NetdynoError
from netdyno.records.study import Limits, Study, StudyPlan
from netdyno.store.documents import Documents


class Question(StrEnum):
    """What `--ask` answers."""

    RATE = "rate"
    OPTIMIZER = "optimizer"
    BATCH = "batch"
    CLIP = "clip"


def learn(
    *,
    target: Annotated[
        str | None, Argument("A workload `work.py:Digits` or `garage:digits`, or an earlier study: its id, or `last`.")
    ] = None,
    budget: Budget = "30m",
    seeds: Annotated[
        int, Option(least=3, help="Seeds of each comparison; as many fresh ones confirm what is kept.")
    ] = 5,
    updates: Annotated[
        int | None, Option(least=1, help="Updates of a run.", default="what the workload declares")
    ] = None,
    least_gain: Annotated[
        float, Option(metavar="SCORE", help="What a change must win at least to be kept, in units of the metric.")
    ] = 0.0,
    only: Annotated[list[str] | None, Option(metavar="KNOB", help="Turn these knobs and no others; repeat.")] = None,
    skip: Annotated[list[str] | None, Option(metavar="KNOB", help="Leave these knobs alone; repeat.")] = None,
    time_limit: Annotated[str | None, Option(metavar="TIME", help="What one training run may take.")] = None,
    memory_limit: Annotated[
        str | None, Option(metavar="SIZE", help="What one training run may use on a device.")
    ] = None,
    latency_limit: Annotated[str | None, Option(metavar="TIME", help="What one answer to one sample may take.")] = None,
    costs: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help='JSON: {"costs": [[0, 5], [100, 0]], "review": 1}; rows are true classes, columns answers.',
        ),
    ] = None,
    range_test: Annotated[bool, Option(help="Only the range test of the learning rate.")] = False,
    ask: Annotated[
        Question | None,
        Option(
            help="Answer one question of optimisation and search nothing else: `rate`, `optimizer`, `batch` or `clip`."
        ),
    ] = None,
    resume: Annotated[str | None, Option(metavar="STUDY", help="Go on with a study that was cut short.")] = None,
    everything: Annotated[bool, Option(help="Show every setting of every knob, and why knobs were not tried.")] = False,
    runs: Annotated[
        str | None,
        Option(metavar="TAG", help="Show the training runs of this stage or knob instead: `optim`, `dropout`."),
    ] = None,
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Also write a page with the curves of the sweeps.")
    ] = None,
    fail_on_no_gain: Annotated[bool, Option(help="Exit with 1 when nothing was kept.")] = False,
    seed: Seed = 0,
    store: StoreFolder = STORE,
    json: AsJson = False,
    progress: Progress = ProgressForm.AUTO,
) -> int:
    """Find a better recipe for a workload: data, architecture, optimisation, regularisation, one class of knob at a time.

    Each knob is swept over seeds; what wins is confirmed on fresh ones and kept only beyond noise. `netdyno template` writes
    the winner as a script.
    """
    if ask is not None:
        asked = (ask, _named(target), seeds, updates, options.duration(budget))
        return _asked(*asked, html=html, json=json, progress=progress)
    if range_test:
        return _ranged(_named(target), seeds=seeds, html=html, json=json, progress=progress)
    shelf = Documents(store)
    prices = _prices(costs)
    if resume is None and target is not None and _stored(target):
        study = shelf.load(Study, target)
    else:
        earlier = shelf.load(Study, resume) if resume is not None else None
        plan = StudyPlan(
            budget_s=options.duration(budget), seeds=tuple(range(1, seeds + 1)), seed=seed, updates=updates,
            least_gain=least_gain, costs=prices.costs, review=prices.review, only=_knobs(only), skip=_knobs(skip),
            limits=Limits(
                seconds=options.duration(time_limit) if time_limit else None,
                bytes=options.size(memory_limit) if memory_limit else None,
                latency_s=options.duration(latency_limit) if latency_limit else None,
            ),
        )  # fmt: skip
        study = _searched(target or (earlier.target if earlier else None), plan, shelf, earlier, progress)
    _told(study, json=json, everything=everything, html=html, tag=runs)
    return NO if fail_on_no_gain and not study.recipe else DONE


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file of costs holds."""

    costs: tuple[tuple[float, ...], ...] = ()
    review: float | None = None


def _prices(file: Path | None) -> Prices:
    if file is None:
        return Prices()
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Prices)
    except (OSError, msgspec.MsgspecError) as why:
        raise NetdynoError(f"cannot read the costs in `{file}`", because=str(why), hint=AS_COSTS) from None
    if not found.costs or any(len(row) != len(found.costs) for row in found.costs):
        raise NetdynoError(f"cannot read the costs in `{file}`", because="its matrix is not square", hint=AS_COSTS)
    return found


AS_COSTS = 'write {"costs": [[0, 5], [100, 0]], "review": 1}: a row for each true class, a column for each answer'


def _named(target: str | None) -> str:
    if target is None:
        raise NetdynoError(
            "there is nothing to learn",
            because="no workload was named",
            hint="`netdyno learn garage:digits`, or `netdyno init` to write a workload of your own",
        )
    return target


def _ranged(target: str, *, seeds: int, html: Path | None, json: bool, progress: ProgressForm) -> int:
    """The range test alone: what it suggests, and its curve."""
    with listening(progress) as listener:
        loading(listener)
        from netdyno.learning.range_test import range_test
        from netdyno.learning.run import setup_of
        from netdyno.targets.workload import load

        found = range_test(setup_of(load(target)), seeds=tuple(range(1, seeds + 1)), listener=listener)
    if html is not None and found.curve is not None:
        from netdyno.reports._study_asked import page

        html.write_text(page(target, found.says, curves=(found.curve,)), encoding="utf-8")
        tell(f"page:    {html}")
    if json:
        suggested = {"says": found.says, "suggestion": found.suggestion, "factor": found.factor, "curve": found.curve}
        put(msgspec.json.format(msgspec.json.encode(suggested), indent=2).decode())
    else:
        put(found.says)
    return DONE


def _asked(
    question: Question,
    target: str,
    seeds: int,
    updates: int | None,
    budget_s: float,
    *,
    html: Path | None,
    json: bool,
    progress: ProgressForm,
) -> int:
    """One question, answered by its own experiment: a sentence, a table, and its plot."""
    with listening(progress, budget_s=budget_s) as listener:
        loading(listener)
        from netdyno.learning import asked
        from netdyno.learning.run import setup_of
        from netdyno.targets.workload import load

        setup = setup_of(load(target), updates=updates)
        answer = asked.QUESTIONS[question.value](
            asked.Asking(setup=setup, seeds=seeds, budget_s=budget_s, listener=listener, clock=time.monotonic)
        )
    from netdyno.reports import _study_asked as report

    if html is not None:
        drawn: dict[str, Any] = {
            "columns": answer.columns,
            "rows": answer.rows,
            "curves": answer.curves,
            "dots": answer.dots,
        }
        html.write_text(report.page(f"{target}: {question.value}", answer.says, **drawn), encoding="utf-8")
        tell(f"page:    {html}")
    if json:
        told = {"asks": question.value, "target": target, **asked.as_data(answer)}
        put(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    else:
        put(report.render(answer.says, answer.columns, answer.rows, width=width(), colour=colour()))
    return DONE


def _stored(target: str) -> bool:
    """True for the id of an earlier study."""
    return target == "last" or (":" not in target and not target.endswith(".py"))


def _searched(
    target: str | None, plan: StudyPlan, shelf: Documents, earlier: Study | None, progress: ProgressForm
) -> Study:
    target = _named(target)
    if earlier is not None:
        earlier = msgspec.structs.replace(earlier, plan=msgspec.structs.replace(earlier.plan, budget_s=plan.budget_s))
    with listening(progress, budget_s=plan.budget_s) as listener:
        loading(listener)
        from netdyno.learning import search

        made: list[Path] = []
        try:
            study = search.learn(
                target, plan, store=shelf, listener=listener, resume=earlier, command=options.command_line(),
                began=made.append,
            )  # fmt: skip
        except BaseException as error:
            if made and made[0].exists():
                error.netdyno_record = made[0]  # type: ignore[attr-defined]
            raise
    tell(f"study:   {shelf.path(Study, study.id)}")
    return study


def _told(study: Study, *, json: bool, everything: bool, html: Path | None, tag: str | None) -> None:
    from netdyno.reports import _study as report

    if html is not None:
        from netdyno.reports import _study_page as page

        html.write_text(page.render(study), encoding="utf-8")
        tell(f"page:    {html}")
    if json:
        from netdyno.verdicts.study import tagged

        kept = study if tag is None else msgspec.structs.replace(study, runs=tagged(study.runs, tag))
        put(report.as_json(kept))
    elif tag is not None:
        put(report.runs(study, tag, width=width(), colour=colour()))
    else:
        put(report.render(study, everything=everything, width=width(), colour=colour()))


def _knobs(given: list[str] | None) -> tuple[str, ...]:
    return options.known(options.names(given), options.files_of("knobs"), kind="knob")
