"""Load on a service, or on a package without one: what it answers in time, and up to which rate."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from msgspec.structs import replace

from netdyno import __version__
from netdyno.cli import _options as options
from netdyno.cli._declare import Argument, Option
from netdyno.cli._endings import DONE, NO
from netdyno.cli._options import STORE, AsJson, Budget, Progress, ProgressForm, Seed, StoreFolder
from netdyno.cli._output import put, tell, width
from netdyno.cli._progress import listening
from netdyno.errors import NetdynoError
from netdyno.progress import Event
from netdyno.records.deployment import Constraint
from netdyno.records.load import Load, LoadPlan, Scenario
from netdyno.store.documents import Documents
from netdyno.verdicts import slo as promises

if TYPE_CHECKING:
    from netdyno.serving.offered import Request, Where

RATE = 10.0  # what is offered when nothing else was said: enough for a first look, too little to hurt


class Arriving(StrEnum):
    """How requests arrive."""

    POISSON = "poisson"
    CONSTANT = "constant"


class Scenarios(StrEnum):
    """LoadGen's scenarios."""

    SINGLE_STREAM = "single-stream"
    OFFLINE = "offline"
    SERVER = "server"


def load(
    *,
    target: Annotated[
        str | None,
        Argument("A service `http://127.0.0.1:8000`, or the folder of a package; an earlier load test by `--resume`."),
    ] = None,
    slo: Annotated[str | None, Option(metavar="TEXT", help="What must be kept: `p99<=15ms, failures<=0.1%`.")] = None,
    rate: Annotated[float | None, Option(metavar="PER_SECOND", help="Offer this rate, and no other.")] = None,
    find: Annotated[
        bool, Option(help="Find the highest rate that holds; so it is when an objective names none.")
    ] = False,
    for_: Annotated[
        str, Option(metavar="TIME", help="How long a rate is offered; longer where its percentile asks for more.")
    ] = "10s",
    scenario: Annotated[
        Scenarios | None, Option(help="For a package: which of LoadGen's scenarios.", default="single-stream")
    ] = None,
    model: Annotated[
        str | None, Option(metavar="NAME", help="Which model of the service.", default="the only one")
    ] = None,
    package: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Send the example of this package, and compare answers with its own."),
    ] = None,
    body: Annotated[list[Path] | None, Option(metavar="FILE", help="Send what is in this file; repeat.")] = None,
    expect: Annotated[Path | None, Option(metavar="FILE", help="With --body: what the answer must say.")] = None,
    headers: Annotated[
        Path | None, Option(metavar="FILE", help="Header lines that go with every request, for instance a token.")
    ] = None,
    rows: Annotated[int, Option(least=1, help="Rows of one request.")] = 1,
    batch: Annotated[
        int | None, Option(least=1, help="With a package: rows that go together.", default="what it allows")
    ] = None,
    arrivals: Annotated[Arriving, Option(help="How requests arrive.")] = Arriving.POISSON,
    connections: Annotated[int, Option(least=1, help="Connections that are kept open, 500 at most.")] = 64,
    timeout: Annotated[str, Option(metavar="TIME", help="An answer after this is a failure.")] = "5s",
    start: Annotated[float, Option(metavar="PER_SECOND", help="The rate that a search begins with.")] = RATE,
    budget: Budget = "10m",
    anywhere: Annotated[bool, Option(help="The service is not on this machine, and it is mine to load.")] = False,
    locust: Annotated[
        Path | None, Option(metavar="FILE", help="Write a locust file of this load, and send nothing more.")
    ] = None,
    resume: Annotated[str | None, Option(metavar="ID", help="Go on with a search that was cut short.")] = None,
    fail_on_miss: Annotated[bool, Option(help="Exit with 1 unless the objective is kept.")] = False,
    seed: Seed = 0,
    store: StoreFolder = STORE,
    json: AsJson = False,
    progress: Progress = ProgressForm.AUTO,
) -> int:
    """Load a service, open loop, and say which percentile keeps its promise, or up to which rate it does.

    Latency counts from when a request was due, so a service that stands still is not spared. A package without a service is
    loaded in this process, by MLPerf LoadGen. Only services on this machine are loaded, unless `--anywhere` is said.
    """
    shelf = Documents(store)
    earlier = shelf.load(Load, resume) if resume is not None else None
    target = target or (earlier.target if earlier is not None else None)
    if target is None:
        raise NetdynoError(
            "there is nothing to load", because="no service and no package was named",
            hint="`netdyno load http://127.0.0.1:8000`, or `netdyno load PACKAGE`",
        )  # fmt: skip
    if earlier is not None and (slo is not None or rate is not None):
        raise NetdynoError(
            f"cannot go on with `{earlier.id}` under another promise",
            because="its probes were judged by the one it was begun with",
            hint="leave `--slo` and `--rate` out, or begin anew without `--resume`",
        )
    objective = promises.parse(slo) if slo is not None else ()
    plan = earlier.plan if earlier is not None else LoadPlan(
        objective=objective, rate=_rate(rate, objective, find=find), start=_positive(start, "--start"),
        probe_s=options.duration(for_), budget_s=options.duration(budget), arrivals=arrivals.value,
        connections=min(500, connections), timeout_s=options.duration(timeout), rows=rows, seed=seed,
    )  # fmt: skip
    if earlier is not None:
        plan = replace(plan, budget_s=plan.budget_s + options.duration(budget))
    test = earlier or _fresh(shelf, target, plan)
    test = replace(test, plan=plan)
    if "://" not in target:
        _refuse_http_only(body=body, package=package, locust=locust, resume=resume)
        test = _by_loadgen(test, scenario, batch, progress)
    else:
        _refuse_without_package(scenario=scenario, batch=batch)
        from netdyno.serving import load_requests as sending

        place = sending.where(target, anywhere=anywhere, headers=sending.lines(headers) if headers else ())
        asked = _requests(place, model=model, package=package, body=body, expect=expect, rows=rows, seed=seed)
        if locust is not None:
            _write_locust(locust, place, asked, plan)
            return DONE
        test = _offered(test, place, asked, shelf, progress)
    _told(test, shelf, json=json)
    return NO if fail_on_miss and test.ok is not True else DONE


def _rate(rate: float | None, objective: tuple[Constraint, ...], *, find: bool) -> float | None:
    """The one rate to offer; None: search."""
    timed = any(promises.share_of(one) is not None for one in objective)
    if find and not timed:
        raise NetdynoError(
            "cannot find the highest rate that holds",
            because="no latency was promised",
            hint='say what must hold: `--slo "p99<=15ms"`',
        )
    if find:
        return None
    if rate is not None:
        return _positive(rate, "--rate")
    promised = next((one.limit for one in objective if one.quantity == "rate"), None)
    return promised if promised is not None or timed else RATE


def _positive(rate: float, flag: str) -> float:
    if not 0 < rate < 1e6:
        raise NetdynoError(
            f"cannot offer {rate:g} requests per second", because="a rate is above zero, and below a million",
            hint=f"for instance `{flag} 50`",
        )  # fmt: skip
    return rate


def _fresh(shelf: Documents, target: str, plan: LoadPlan) -> Load:
    now = datetime.now(UTC)
    name = urlsplit(target).netloc if "://" in target else Path(target).resolve().name
    return Load(
        id=shelf.new_id(Load, name, now=now), made_by=f"netdyno {__version__}", made_at=now.isoformat(timespec="seconds"),
        command=options.command_line(), target=target, plan=plan,
    )  # fmt: skip


def _refuse_http_only(**given: object) -> None:
    wrong = next((name for name, value in given.items() if value is not None), None)
    if wrong is not None:
        raise NetdynoError(
            f"`--{wrong}` does not go with a package", because="a package is loaded in this process, with its own example",
            hint="serve it, and load its address: `netdyno serve PACKAGE`",
        )  # fmt: skip


def _refuse_without_package(**given: object) -> None:
    wrong = next((name for name, value in given.items() if value is not None), None)
    if wrong is not None:
        raise NetdynoError(
            f"`--{wrong}` does not go with a service", because="LoadGen runs over a package, in this process",
            hint=f"name a package: `netdyno load PACKAGE --{wrong} …`",
        )  # fmt: skip


def _requests(
    place: "Where",
    *,
    model: str | None,
    package: Path | None,
    body: list[Path] | None,
    expect: Path | None,
    rows: int,
    seed: int,
) -> "tuple[Request, ...]":
    from netdyno.serving import load_requests as sending

    if not body and expect is not None:
        raise NetdynoError(
            "there is nothing to compare with `--expect`", because="no request body was given",
            hint="`--body FILE --expect FILE` go together",
        )  # fmt: skip
    if body:
        found = sending.of_files(place, body, expected=expect)
    elif package is not None:
        from netdyno.shipping.package import opened

        sent = opened(package)
        found = sending.of_package(place, model or sent.manifest.name, sent, rows=rows)
    else:
        return sending.of_metadata(place, sending.model_of(place, model), rows=rows, seed=seed)
    sending.answered(place, found[:4])
    return found


def _write_locust(file: Path, place: "Where", asked: "tuple[Request, ...]", plan: LoadPlan) -> None:
    from netdyno.serving.load_locust import write

    for path in write(file, place, asked, rate=plan.rate or plan.start, timeout_s=plan.timeout_s):
        put(str(path))


def _offered(
    test: Load, place: "Where", asked: "tuple[Request, ...]", shelf: Documents, progress: ProgressForm
) -> Load:
    from netdyno.serving import load as loads

    plan = test.plan
    offer = loads.offering(place, asked, plan)
    with listening(progress, budget_s=plan.budget_s if plan.rate is None else None) as listener:
        if plan.rate is None:
            return loads.search(test, offer, save=shelf.save, listener=listener)
        seconds = loads.probe_s(plan.rate, plan)
        listener(Event(f"offering {plan.rate:.4g} requests per second for {seconds:.0f} s"))
        return loads.at_one_rate(test, offer)


def _by_loadgen(test: Load, scenario: Scenarios | None, batch: int | None, progress: ProgressForm) -> Load:
    from netdyno.serving.loadgen import loadgen, verdict
    from netdyno.shipping.package import opened

    plan, found = test.plan, opened(test.target)
    limit = next(((one.limit, share) for one in plan.objective if (share := promises.share_of(one)) is not None), None)
    kind: Scenario = (scenario or Scenarios.SINGLE_STREAM).value  # type: ignore[assignment]
    with listening(progress) as listener:
        listener(Event(f"loading `{found.manifest.name}`"))
        call = found.call()
        found.proven(call)
        listener(Event(f"running LoadGen's {kind} for {plan.probe_s:g} s"))
        run = loadgen(
            call, found.example()[0], kind, seconds=plan.probe_s, batch=batch or max(found.manifest.running.batches, default=1),
            rate=plan.rate, limit_s=limit[0] if limit else None, share=limit[1] if limit and kind != "offline" else None,
            level=plan.level, seed=plan.seed,
        )  # fmt: skip
    met = verdict(run, plan.objective)
    return replace(test, loadgen=run, met=met, ok=promises.kept(met) if met else None, finished=True)


def _told(test: Load, shelf: Documents, *, json: bool) -> None:
    from netdyno.reports._load import text

    path = shelf.save(test)
    if json:
        put(options.as_json(test))
        return
    put(text(test, width=width()))
    tell(f"load test: {path}")
