"""A run as a document."""

from pathlib import Path
from typing import Annotated

from netdyno.cli._declare import Option
from netdyno.cli._endings import DONE
from netdyno.cli._options import STORE, AsJson, Run, StoreFolder
from netdyno.cli._output import put, write_html
from netdyno.errors import NetdynoError
from netdyno.records import codec
from netdyno.records.record import Record
from netdyno.store import Store
from netdyno.store.disk import write_whole


def report(
    *,
    run: Run = "last",
    html: Annotated[bool, Option(help="One self-contained file; its path goes to stdout.")] = False,
    markdown: Annotated[bool, Option(help="Markdown on stdout.")] = False,
    output: Annotated[Path | None, Option(short="-o", help="Write to this file instead.")] = None,
    store: StoreFolder = STORE,
    json: AsJson = False,
) -> int:
    """Write a run's report.

    As HTML unless `--markdown` or `--json` is given.
    """
    if html + markdown + json > 1:
        raise NetdynoError(
            "cannot write two reports at once",
            because="more than one of `--html`, `--markdown` and `--json` was given",
            hint="call `netdyno report` once for each",
        )
    shelf = Store(store)
    record = shelf.load(run)
    if output is not None:
        write_whole(output, _document(record, markdown=markdown, json=json).encode())
        put(str(output))
    elif markdown or json:
        put(_document(record, markdown=markdown, json=json))
    else:
        put(str(write_html(record, shelf)))
    return DONE


def _document(record: Record, *, markdown: bool, json: bool) -> str:
    if json:
        return codec.encode(record, indent=2).decode()
    if markdown:
        from netdyno.reports import markdown as in_markdown

        return in_markdown.render(record)
    from netdyno.reports import html as in_html

    return in_html.render(record)
