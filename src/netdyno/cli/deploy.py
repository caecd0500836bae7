"""A trained module, shipped: every way to run it here is tried, proven and raced; what keeps the objective becomes a package."""

from pathlib import Path
from typing import Annotated

import msgspec

from netdyno.cli import _options as options
from netdyno.cli._declare import Argument, Option
from netdyno.cli._endings import DONE, NO
from netdyno.cli._options import STORE, AsJson, Budget, Progress, ProgressForm, Seed, StoreFolder
from netdyno.cli._output import colour, put, tell, width
from netdyno.cli._progress import listening, loading
from netdyno.errors import NetdynoError
from netdyno.records.deployment import Shipment, ShipPlan
from netdyno.store.disk import write_whole
from netdyno.store.documents import Documents

GOALS = ("p50", "p90", "p99", "cpu", "memory", "rate")


def deploy(
    *,
    target: Annotated[
        str | None,
        Argument("A release `ship.py:Digits`, or an earlier deployment: its id, or `last`."),
    ] = None,
    slo: Annotated[
        str | None,
        Option(
            metavar="TEXT", help="What must be kept: `p99<=15ms, drop<=0.5%, memory<=200MB, size<=20MB, rate>=100/s`."
        ),
    ] = None,
    minimise: Annotated[
        str, Option(metavar="WHAT", help=f"What is made small among what keeps the objective: {', '.join(GOALS)}.")
    ] = "p50",
    budget: Budget = "10m",
    rows: Annotated[int, Option(least=1, help="Rows of one call when latency is measured.")] = 1,
    batches: Annotated[str, Option(metavar="N,N", help="Row counts that the service may put together.")] = "1,2,4,8",
    threads: Annotated[
        str | None, Option(metavar="N,N", help="Thread counts to try.", default="1, half of the cores, all cores")
    ] = None,
    only: Annotated[
        list[str] | None, Option(metavar="RUNTIME", help="Try these runtimes and no others; repeat.")
    ] = None,
    skip: Annotated[list[str] | None, Option(metavar="RUNTIME", help="Leave these runtimes out; repeat.")] = None,
    allow: Annotated[
        list[str] | None, Option(metavar="ITEM", help="An item of the gate that is meant to fail; repeat.")
    ] = None,
    exhaustive: Annotated[bool, Option(help="Leave nothing out on the ground of what was measured before.")] = False,
    package: Annotated[
        Path | None, Option(metavar="FOLDER", help="Where the package goes.", default="NAME-package")
    ] = None,
    gate_only: Annotated[bool, Option(help="Look at the module, and export nothing.")] = False,
    resume: Annotated[str | None, Option(metavar="ID", help="Go on with a deployment that was cut short.")] = None,
    everything: Annotated[bool, Option(help="Show every way, the whole gate, and why ways were not tried.")] = False,
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Also write a page with the front and the ladder.")
    ] = None,
    seed: Seed = 0,
    store: StoreFolder = STORE,
    json: AsJson = False,
    progress: Progress = ProgressForm.AUTO,
) -> int:
    """Ship a trained module: gate, every runtime and precision that this machine has, parity, accuracy, latency, package.

    `netdyno deploy ship.py:Digits --slo "p99<=15ms, drop<=0.5%"`. Exits with 1 when the gate stops it or nothing keeps the objective.
    """
    shelf = Documents(store)
    if resume is None and target is not None and _stored(target):
        shipment = shelf.load(Shipment, target)
    else:
        earlier = shelf.load(Shipment, resume) if resume is not None else None
        plan = _plan(
            slo, minimise=minimise, budget=budget, rows=rows, batches=batches, threads=threads, only=only, skip=skip,
            allow=allow, exhaustive=exhaustive, seed=seed,
        )  # fmt: skip
        named = target or (earlier.target if earlier is not None else None)
        shipment = _shipped(named, plan, shelf, package, earlier, gate_only=gate_only, progress=progress)
    _told(shipment, json=json, everything=everything, html=html)
    return DONE if shipment.winner is not None or (gate_only and not _stops(shipment)) else NO


def _plan(
    slo: str | None,
    *,
    minimise: str,
    budget: str,
    rows: int,
    batches: str,
    threads: str | None,
    only: list[str] | None,
    skip: list[str] | None,
    allow: list[str] | None,
    exhaustive: bool,
    seed: int,
) -> ShipPlan:
    from netdyno.verdicts.slo import parse

    if minimise not in GOALS:
        raise NetdynoError(
            f"cannot minimise `{minimise}`", because=f"the goals are {', '.join(GOALS)}", hint="take one of them"
        )
    there = options.files_of("runtimes")
    return ShipPlan(
        objective=parse(slo) if slo else (),
        minimise=minimise,
        budget_s=options.duration(budget),
        rows=rows,
        batches=_counts(batches),
        threads=_counts(threads) if threads else (),
        only=options.known(options.names(only), there, kind="runtime"),
        skip=options.known(options.names(skip), there, kind="runtime"),
        allow=options.known(options.names(allow), options.files_of("gates"), kind="item of the gate"),
        exhaustive=exhaustive,
        seed=seed,
    )


def _counts(text: str) -> tuple[int, ...]:
    """Whole numbers above nothing, in order, each once.

    >>> _counts("8, 1,2")
    (1, 2, 8)
    """
    try:
        found = sorted({int(word) for word in text.split(",") if word.strip()})
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise NetdynoError(f"cannot read `{text}`", because="it is no list of whole numbers", hint="write 1,2,4,8")
    return tuple(found)


def _shipped(
    target: str | None,
    plan: ShipPlan,
    shelf: Documents,
    package: Path | None,
    earlier: Shipment | None,
    *,
    gate_only: bool,
    progress: ProgressForm,
) -> Shipment:
    if target is None:
        raise NetdynoError(
            "there is nothing to ship",
            because="no release was named",
            hint="`netdyno deploy ship.py:Digits`; docs/how-to/ship-a-model.md shows such a file",
        )
    with listening(progress, budget_s=plan.budget_s) as listener:
        loading(listener)
        from netdyno.shipping import walk

        steps = walk.GATE if gate_only else walk.STEPS
        if earlier is not None:
            earlier = msgspec.structs.replace(
                earlier, plan=msgspec.structs.replace(earlier.plan, budget_s=plan.budget_s)
            )
        shipment = walk.deploy(
            target, plan, shelf=shelf, package=package, listener=listener, resume=earlier, steps=steps,
            command=options.command_line(),
        )  # fmt: skip
    tell(f"deployment: {shelf.path(Shipment, shipment.id)}")
    return shipment


def _told(shipment: Shipment, *, json: bool, everything: bool, html: Path | None) -> None:
    from netdyno.reports import _shipment as report

    if html is not None:
        from netdyno.reports import _shipment_page as page

        write_whole(html, page.render(shipment).encode())
        tell(f"page:       {html}")
    put(
        report.as_json(shipment)
        if json
        else report.render(shipment, everything=everything, width=width(), colour=colour())
    )


def _stops(shipment: Shipment) -> bool:
    return any(check.ok is False and not check.warning for check in shipment.gate)


def _stored(target: str) -> bool:
    """True for the id of an earlier deployment."""
    return target == "last" or (":" not in target and not target.endswith(".py"))
