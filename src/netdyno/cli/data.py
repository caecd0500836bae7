"""A look at the data before anything else: what is wrong with it, on which samples, and what to do."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from netdyno.cli import _options as options
from netdyno.cli._declare import Argument, Option
from netdyno.cli._endings import DONE, NO
from netdyno.cli._options import STORE, AsJson, Progress, ProgressForm, Seed, StoreFolder
from netdyno.cli._output import colour, put, tell, width
from netdyno.cli._progress import listening, loading
from netdyno.cli._scripts import Words, script_named
from netdyno.errors import NetdynoError
from netdyno.records.audit import Audit
from netdyno.records.diagnosis import Outcome
from netdyno.store.documents import Documents

if TYPE_CHECKING:
    from netdyno.targets.script import Script


def data(
    *,
    target: Annotated[
        str | None,
        Argument(
            "A workload `work.py:Digits`, a training script `train.py`, a folder of images, a table `data.csv`, arrays `data.npz`, "
            "or an earlier look: its id, or `last`.",
        ),
    ] = None,
    words: Words = (),
    target_column: Annotated[
        str | None, Option(metavar="NAME", help="The column of a table that is to be learned.")
    ] = None,
    test: Annotated[str | None, Option(metavar="FILE", help="The table to judge on, with the same columns.")] = None,
    group_column: Annotated[
        str | None,
        Option(metavar="NAME", help="The column that says what records belong together: a patient, a speaker."),
    ] = None,
    time_column: Annotated[
        str | None, Option(metavar="NAME", help="The column that says when a record was made.")
    ] = None,
    policy: Annotated[
        Path | None, Option(metavar="FILE", help="The augmentation policy, TOML or JSON: it must say how strong it is.")
    ] = None,
    vocabulary: Annotated[
        Path | None,
        Option(metavar="FILE", help="The words that the model knows, one a line: how many others do texts have?"),
    ] = None,
    serving: Annotated[
        str | None,
        Option(
            metavar="FILE:FUNCTION",
            help="How a raw record becomes an input in use: compared with training on the same records.",
        ),
    ] = None,
    training: Annotated[
        str | None,
        Option(
            metavar="FILE:FUNCTION", help="The same in training, where the data do not say it: of a folder, a table."
        ),
    ] = None,
    sample: Annotated[int, Option(metavar="N", least=20, help="Look at no more than N samples of each split.")] = 4000,
    fail_on: Annotated[
        list[str] | None,
        Option(metavar="AUDIT", help="Exit with 1 when this audit finds something; `any` for every audit; repeat."),
    ] = None,
    everything: Annotated[bool, Option(help="Show every sample and column, and why audits did not look.")] = False,
    html: Annotated[Path | None, Option(metavar="FILE", help="Also write a page with pictures of the samples.")] = None,
    seed: Seed = 0,
    store: StoreFolder = STORE,
    json: AsJson = False,
    progress: Progress = ProgressForm.AUTO,
) -> int:
    """Look at the data: leaks, wrong labels, shifts, broken values. Each finding names samples and says the fix.

    `netdyno data data.csv --target-column label --test test.csv`, `netdyno data photos/`, `netdyno data work.py:Digits`. Of a
    script, `netdyno data train.py -- --epochs 3`, the data it trains on are watched while it runs.
    """
    shelf = Documents(store)
    bad = _gates(fail_on)
    if target is None and not words:
        raise _nothing()
    script = _script(target, words)
    ways = _ways(serving, training, refused=script is not None or (target is not None and _stored(target)))
    if script is not None:
        audit = _watched(script, shelf, seed, progress)
    elif target is not None and _stored(target):
        audit = shelf.load(Audit, target)
    else:
        assert target is not None
        named = (target_column, test, group_column, time_column)
        beside = {**_beside(policy, vocabulary), **ways}
        audit = _looked(target, named, beside=beside, sample=sample, seed=seed, shelf=shelf, progress=progress)
    _told(audit, json=json, everything=everything, html=html)
    return NO if sick(audit.outcomes, bad) else DONE


def sick(outcomes: tuple[Outcome, ...], bad: tuple[str, ...]) -> bool:
    """True when an audit that the gate names has found something that is wrong."""
    wrong = {
        one.rule for one in outcomes if one.state == "found" and one.finding is not None and one.finding.stage != "note"
    }
    named = {one.rule for one in outcomes if one.state == "found"}
    return bool(wrong if "any" in bad else named & set(bad))


def _script(target: str | None, words: tuple[str, ...]) -> "Script | None":
    """The training script that was named; folders and tables are none, whatever their name."""
    if target is not None and not target.endswith(".py") and not words:
        return None
    return script_named(target, words, None)


def _beside(policy: Path | None, vocabulary: Path | None) -> dict[str, object]:
    """What audits are told besides the data. Raises NetdynoError for a file that cannot be read."""
    found: dict[str, object] = {}
    if policy is not None:
        from netdyno.audits._policy import read

        read(policy)
        found["policy"] = policy
    if vocabulary is not None:
        try:
            found["vocabulary"] = tuple(vocabulary.read_text().split())
        except (OSError, ValueError) as error:
            raise NetdynoError(
                f"cannot read the vocabulary `{vocabulary}`", because=str(error), hint="write one word a line"
            ) from error
    return found


def _ways(serving: str | None, training: str | None, *, refused: bool) -> dict[str, object]:
    """The functions that make inputs of raw records. Raises NetdynoError where they are not found, or have nothing to be compared on."""
    if serving is None and training is None:
        return {}
    if serving is None or refused:
        raise NetdynoError(
            f"cannot use `--{'serving' if serving is not None else 'training'}` here",
            because="only a look at data has raw records, and no script or earlier look has"
            if refused
            else "it names one way, and two are compared",
            hint="`netdyno data photos/ --serving serve.py:prepare --training train.py:prepare`",
        )
    from netdyno.audits._serving import way

    named = {"serving": serving, "training": training}
    return {flag: way(reference, flag=flag) for flag, reference in named.items() if reference is not None}


def _stored(target: str) -> bool:
    """True for the id of an earlier look: `last`, or a name of no file that has the form of an id."""
    return target == "last" or (target[:2] == "20" and target[4:5] == "-" and not Path(target).exists())


def _looked(
    target: str,
    named: tuple[str | None, str | None, str | None, str | None],
    *,
    beside: dict[str, object],
    sample: int,
    seed: int,
    shelf: Documents,
    progress: ProgressForm,
) -> Audit:
    with listening(progress) as listener:
        loading(listener)
        from netdyno.audits._views import Named
        from netdyno.audits._walk import examine

        name = shelf.new_id(Audit, Path(target).stem if ":" not in target else target)
        try:
            audit = examine(
                target,
                id=name,
                named=Named(*named),
                beside=beside,
                sample=sample,
                seed=seed,
                keep=shelf.save,
                listener=listener,
                command=options.command_line(),
            )
        except BaseException as error:
            if shelf.path(Audit, name).exists():
                error.netdyno_record = shelf.path(Audit, name)  # type: ignore[attr-defined]
            raise
    tell(f"look:    {shelf.path(Audit, name)}")
    return audit


def _watched(script: "Script", shelf: Documents, seed: int, progress: ProgressForm) -> Audit:
    """What the doctor sees of the data while the script trains: its findings about data and generalisation."""
    from netdyno.records.record import Plan
    from netdyno.store import Store

    plan = Plan(seed=seed)
    with listening(progress, budget_s=plan.budget_s) as listener:
        loading(listener)
        from netdyno import bench_script

        record = bench_script.diagnose(
            script, plan, store=Store(shelf.folder), listener=listener, command=options.command_line()
        )
    for failure in record.failures:
        tell(failure.says)
    audit = Audit(
        id=shelf.new_id(Audit, record.target.name),
        made_by=record.made_by,
        made_at=record.made_at,
        command=record.command,
        target=record.target.source,
        seed=seed,
        outcomes=about_data(record.outcomes),
        finished=record.finished,
    )
    tell(f"look:    {shelf.save(audit)}")
    return audit


def about_data(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """The outcomes that say something about data: findings of that layer or of generalisation, in the doctor's order, and failures."""
    return tuple(
        one
        for one in outcomes
        if (one.finding is not None and one.finding.layer in {"data", "generalisation"}) or one.state == "failed"
    )


def _told(audit: Audit, *, json: bool, everything: bool, html: Path | None) -> None:
    from netdyno.reports import _audit as report

    if html is not None:
        from netdyno.reports import _audit_page as page
        from netdyno.store.disk import write_whole

        write_whole(html, page.render(audit).encode())
        tell(f"page:    {html}")
    put(report.as_json(audit) if json else report.render(audit, everything=everything, width=width(), colour=colour()))


def _nothing() -> NetdynoError:
    return NetdynoError(
        "there is nothing to look at",
        because="no target was given",
        hint="`netdyno data data.csv --target-column label`, `netdyno data garage:digits`, or `netdyno data last`",
    )


def _gates(fail_on: list[str] | None) -> tuple[str, ...]:
    asked = options.names(fail_on)
    there = (*options.files_of("audits"), *options.files_of("rules"))
    options.known(tuple(name for name in asked if name != "any"), there, kind="audit")
    return asked
