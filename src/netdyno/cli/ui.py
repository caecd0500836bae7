"""The store in a browser."""

import contextlib
from pathlib import Path
from typing import Annotated

from netdyno.cli._declare import Option
from netdyno.cli._endings import DONE
from netdyno.cli._options import STORE, StoreFolder
from netdyno.cli._output import put, tell

HOST = "127.0.0.1"


def ui(
    *,
    store: StoreFolder = STORE,
    host: Annotated[
        str, Option(help="Address to listen on; any but this machine's own needs the printed token.")
    ] = HOST,
    port: Annotated[int, Option(help="Port to listen on; 0 takes a free one.", least=0)] = 0,
    open: Annotated[bool, Option(help="Open the page in the browser at once.")] = False,  # noqa: A002  the flag's name
    no_open: Annotated[bool, Option(help="Do not open the browser (the default, for scripts that say so).")] = False,
) -> int:
    """Show runs, live and past, in the browser.

    Charts that go on by themselves, alerts with what they are based on, runs beside each other. Prints its address and
    ends on Ctrl-C. Needs the extra `ui`: pip install 'netdyno[ui]'.
    """
    from netdyno.dashboard.serve import serve

    def said(url: str) -> None:
        put(url)
        tell(f"shows `{store}`; Ctrl-C ends it")
        if open and not no_open:
            _browse(url)

    serve(Path(store), host=host, port=port, said=said)
    return DONE


def _browse(url: str) -> None:
    import webbrowser

    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(url)
