"""A package as a service."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from netdyno.cli._declare import Argument, Option
from netdyno.cli._endings import DONE
from netdyno.cli._options import Progress, ProgressForm
from netdyno.cli._output import put, tell
from netdyno.cli._progress import listening
from netdyno.errors import NetdynoError
from netdyno.serving.logs import LogLevel

if TYPE_CHECKING:
    from collections.abc import Callable

    from netdyno.serving.engines._base import Wanted
    from netdyno.serving.serve import Started
    from netdyno.serving.thermal import Profile
    from netdyno.shipping.package import Package

HOST = "127.0.0.1"


def serve(
    *,
    package: Annotated[str, Argument("Folder of a package, as `netdyno deploy` writes it.", metavar="PACKAGE")],
    engine: Annotated[
        str, Option(help="Server to put it on: own, litserve, ray-serve, pytriton; to write: triton-repository, ovms.")
    ] = "own",
    write: Annotated[
        str | None,
        Option(help="Write the engine's script or layout into this folder instead of serving.", metavar="FOLDER"),
    ] = None,
    python: Annotated[
        str | None, Option(help="Interpreter of another environment to run the engine in.", metavar="FILE")
    ] = None,
    slo: Annotated[
        str | None, Option(help='What is promised: "p99<=15ms". Chooses the queue delay and deadlines.')
    ] = None,
    host: Annotated[
        str, Option(help="Address to listen on; any but this machine's own needs the printed token.")
    ] = HOST,
    port: Annotated[int, Option(help="Port to listen on; 0 takes a free one.", least=0)] = 8000,
    deadline: Annotated[
        float | None, Option(help="Milliseconds that a request may take unless it says so itself.", metavar="MS")
    ] = None,
    delay: Annotated[
        float | None,
        Option(help="Milliseconds that a request which had to wait waits for company.", metavar="MS", default="swept"),
    ] = None,
    queue: Annotated[
        int | None, Option(help="Rows that may wait; more are refused with 429.", least=1, default="by the promise")
    ] = None,
    rows: Annotated[int | None, Option(help="Rows of a batch and of a request, at most.", least=1)] = None,
    exact: Annotated[
        bool, Option(help="Only batch sizes whose answers are those of single requests to the bit.")
    ] = False,
    token_file: Annotated[
        str | None, Option(help="File with the token that clients send, instead of a fresh one.", metavar="FILE")
    ] = None,
    log: Annotated[LogLevel, Option(help="Which requests get a line of JSON on stderr.")] = LogLevel.PROBLEMS,
    for_: Annotated[float | None, Option(help="Seconds to serve; otherwise until Ctrl-C.", metavar="SECONDS")] = None,
    farewell: Annotated[
        float, Option(help="Seconds to go on taking requests after a signal, not ready any more.", metavar="SECONDS")
    ] = 0.0,
    hot: Annotated[
        float | None, Option(help="Degrees from which a slower profile is asked for; a rehearsal without commands.")
    ] = None,
    when_hot: Annotated[str | None, Option(help="Command that takes the slower profile.", metavar="COMMAND")] = None,
    when_cool: Annotated[
        str | None, Option(help="Command that takes the full profile again.", metavar="COMMAND")
    ] = None,
    progress: Progress = ProgressForm.AUTO,
) -> int:
    """Serve a package over HTTP: Open Inference Protocol v2, and a plain form for curl.

    Ready once every batch size is warmed up and the package has proven itself. Batches what arrives while the model is busy, and
    makes nobody wait while it is idle. Prints its address and ends on Ctrl-C. Needs the extra `ship`: pip install 'netdyno[ship]'.
    """
    from netdyno.serving.engines._base import Wanted
    from netdyno.serving.serve import Settings, needed
    from netdyno.serving.serve import serve as served
    from netdyno.shipping.package import opened

    promise_s, share = _promised(slo)
    if engine != "own" or write is not None:
        wanted = Wanted(host=host, port=port, largest=rows or 0, delay_s=_seconds(delay) or 0.0)
        return _elsewhere(engine, opened(package), wanted, write=write, python=python, for_s=for_)
    settings = Settings(
        host=host, port=port, token=_token(token_file), promise_s=promise_s, share=share,
        deadline_s=_seconds(deadline), delay_s=_seconds(delay), waiting_rows=queue, rows=rows, exact=exact,
        log=log, for_s=for_, farewell_s=farewell, hot_c=hot, switch=_switch(hot, when_hot, when_cool),
    )  # fmt: skip
    needed()
    found = opened(package)
    with listening(progress) as listener:
        served(found, settings, said=lambda started: _said(found, started), listener=listener)
    return DONE


def _elsewhere(
    name: str, package: "Package", wanted: "Wanted", *, write: str | None, python: str | None, for_s: float | None
) -> int:
    """Put the package on another engine: its files only, or running."""
    from netdyno.serving.engines import _base as engines
    from netdyno.serving.engines._base import is_loopback

    engine = engines.named(name)
    sizes = package.manifest.running.batches or package.manifest.warm_up
    wanted = wanted._replace(largest=wanted.largest or max(sizes))
    if write is not None:
        for path in engines.write(engine, package, Path(write), wanted):
            put(str(path))
        return DONE
    if engine.script is None:
        raise NetdynoError(
            f"cannot run `{name}` here", because="it is a layout for a server elsewhere", hint="add `--write FOLDER`"
        )
    if not is_loopback(wanted.host):
        raise NetdynoError(
            f"cannot serve with `{name}` on `{wanted.host}`",
            because="it asks for no token, and others can reach that address",
            hint="put it behind a proxy that does, or use `--engine own`",
        )
    lacks = None if python is not None else engine.unavailable()
    if lacks is not None:
        raise NetdynoError(
            f"cannot serve with `{name}`", because=lacks.partition(": ")[0], hint=lacks.partition(": ")[2]
        )

    def said(url: str) -> None:
        put(url)
        tell(f"serves `{package.manifest.name}` with {name}; Ctrl-C ends it")

    engines.serve(engine, package, wanted, python=python or sys.executable, for_s=for_s, said=said)
    return DONE


def _said(package: "Package", started: "Started") -> None:
    from netdyno.serving.tensors import plain_example

    manifest = package.manifest
    sizes = ", ".join(str(one.rows) for one in started.warmed.sizes)
    put(started.url)
    tell(
        f"serves `{manifest.name}` {manifest.version} by {manifest.runtime.id} in {manifest.precision}; Ctrl-C ends it"
    )
    tell(f"batches of {sizes} rows are warm; queue delay {started.delay.says}; {started.waiting_rows} rows may wait")
    if started.deadline_s is not None:
        tell(f"a request that takes longer than {started.deadline_s * 1e3:g} ms is answered with 504")
    for line in started.warmed.says:
        tell(line)
    tell(f"try: {_curl(started, plain_example(manifest.signature))}")


def _curl(started: "Started", like: str) -> str:
    token = f" -H 'authorization: Bearer {started.token}'" if started.token is not None else ""
    return f"curl {started.url}/predict -H 'content-type: application/json'{token} -d {shlex.quote(like)}"


def _promised(slo: str | None) -> tuple[float | None, float]:
    """The latency that is promised, and for which share of requests."""
    from netdyno.verdicts.slo import parse, share_of

    promises = [(one.limit, share) for one in parse(slo or "") if (share := share_of(one)) is not None] if slo else []
    if slo and not promises:
        raise NetdynoError(
            f"cannot serve by `{slo}`",
            because="it promises no latency, and that is what a queue is kept by",
            hint='say for instance `--slo "p99<=15ms"`',
        )
    # Of several promises the strictest share decides how long anybody may wait.
    return max(promises, key=lambda one: one[1]) if promises else (None, 0.99)


def _switch(hot: float | None, when_hot: str | None, when_cool: str | None) -> "Callable[[Profile], str | None] | None":
    """What switches profiles: both commands, or none of them."""
    if when_hot is None and when_cool is None:
        return None
    if hot is None or when_hot is None or when_cool is None:
        raise NetdynoError(
            "cannot switch profiles",
            because="who takes the slower one must know when, and how to come back",
            hint="say `--hot 85 --when-hot 'nvpmodel -m 1' --when-cool 'nvpmodel -m 0'`, or `--hot` alone for a rehearsal",
        )
    from netdyno.serving.thermal import command

    return command({"saving": shlex.split(when_hot), "full": shlex.split(when_cool)})


def _seconds(milliseconds: float | None) -> float | None:
    if milliseconds is None:
        return None
    if not 0 <= milliseconds < float("inf"):
        raise NetdynoError(
            f"cannot wait for `{milliseconds:g}` ms",
            because="it is no length of time",
            hint="say a number of milliseconds",
        )
    return milliseconds / 1e3


def _token(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        token = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NetdynoError(
            f"cannot read the token in `{file}`", because=str(error), hint="put one line of letters and digits there"
        ) from error
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise NetdynoError(
            f"cannot use the token in `{file}`",
            because="it has fewer than 16 characters, or others than printable ones",
            hint="write one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token
