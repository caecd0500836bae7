"""Opens a package as a service: listening, loaded, warmed up, ready; and at the end nobody is left without an answer."""

import asyncio
import gc
import math
import secrets
import signal
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from netdyno.errors import NetdynoError
from netdyno.listening import address, is_loopback, listen
from netdyno.listening import needed as installed
from netdyno.measure.host import cores
from netdyno.progress import Event, Listener, silent
from netdyno.runtimes._base import Arrays
from netdyno.serving import tensors, thermal
from netdyno.serving.app import App, Limits
from netdyno.serving.batcher import Batcher, Inline, Thread
from netdyno.serving.delay import Chosen, chosen
from netdyno.serving.door import Door
from netdyno.serving.logs import LogLevel, Logs
from netdyno.serving.metrics import Metrics
from netdyno.serving.tensors import DATATYPES
from netdyno.serving.warm_up import Warmed, tiled, warmed
from netdyno.shipping.package import Package

if TYPE_CHECKING:
    import uvicorn

PACKAGES = ("uvicorn", "prometheus_client")
# Without a promise, the queue holds what the model works off in a second or so, and never less than this.
LEAST_WAITING = 64
MOST_WAITING, MOST_WAITING_BYTES = 4096, 256 << 20  # a queue is memory, and whoever is last in a long one has given up
# Who was promised an answer within 15 ms has given up, or asked again, at five times that.
DEADLINE_OVER_PROMISE = 5.0
# A batch that is quicker than handing it to a thread and back, some 0.05 ms each way, is run where it is.
QUICKER_THAN_A_HAND_OVER_S = 0.0001
LOOK_S = 5.0  # between two looks at temperature and power, which change over minutes
REHEARSALS = (
    3  # requests of each size through the whole service before it is ready: the code around the model is cold too
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a package is served. `promise_s` is the latency that was promised, at the share `share` of requests.

    `delay_s` None: chosen by a sweep against the promise, and none where nothing is promised. `for_s` ends the service by itself. After a
    signal, requests are taken for `farewell_s` more, so that whoever sends them learns that it is not ready; then `grace_s` to answer.
    From `hot_c` on a slower profile is asked for by `switch`, and only told of where that is None.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    promise_s: float | None = None
    share: float = 0.99
    deadline_s: float | None = None
    delay_s: float | None = None
    waiting_rows: int | None = None
    rows: int | None = None
    exact: bool = False
    log: LogLevel = LogLevel.PROBLEMS
    for_s: float | None = None
    farewell_s: float = 0.0
    grace_s: float = 30.0
    hot_c: float | None = None
    switch: Callable[[thermal.Profile], str | None] | None = None


@dataclass(frozen=True, kw_only=True)
class Started:
    """A service that is ready: where, for whom, and what was found on the way."""

    url: str
    token: str | None
    warmed: Warmed
    delay: Chosen
    waiting_rows: int
    deadline_s: float | None


def serve(
    package: Package, settings: Settings, *, said: Callable[[Started], None], listener: Listener = silent
) -> None:
    """Serve until a signal, or for `for_s` seconds; `said` is told when it is ready.

    Raises NetdynoError when a package is missing, the address cannot be had, or the model cannot be served.
    """
    needed()
    servable(package)
    import uvicorn

    token = settings.token
    if token is None and not is_loopback(settings.host):
        token = secrets.token_urlsafe(32)
    listening = listen(
        settings.host,
        settings.port,
        backlog=1024,
        hint="`--port 0` takes a free one; leave `--host` out for this machine alone",
    )
    try:
        app = application(package, settings, token=token)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=math.ceil(settings.grace_s),
        )
        service = Service(package, app, settings, url=address(settings.host, listening.getsockname()[1]), token=token)
        _run(service, config, listening, said, listener)
    finally:
        listening.close()


def needed() -> None:
    """Raises NetdynoError when a package of the extra is missing."""
    installed(PACKAGES, cannot="cannot serve", extra="ship")


def servable(package: Package) -> None:
    """Raises NetdynoError for inputs that the protocol has no word for."""
    for port in package.manifest.signature.inputs:
        if port.dtype not in DATATYPES:
            raise NetdynoError(
                f"cannot serve `{package.manifest.name}`",
                because=f"its input `{port.name}` holds `{port.dtype}`, for which the protocol has no name",
                hint=f"deploy a module that takes one of {', '.join(DATATYPES)}",
            )


def application(package: Package, settings: Settings, *, token: str | None) -> App:
    """The application of a package; it is not ready yet."""
    manifest = package.manifest
    rows = settings.rows or max((*manifest.running.batches, *manifest.warm_up, 8))
    return App(
        manifest,
        limits=Limits(rows=rows, bytes=tensors.most_bytes(manifest.signature, rows), deadline_s=deadline_of(settings)),
        door=Door(settings.host, token),
        metrics=Metrics(manifest),
        logs=Logs(settings.log),
    )


def deadline_of(settings: Settings) -> float | None:
    """Seconds that a request may take where it says nothing itself."""
    if settings.deadline_s is not None or settings.promise_s is None:
        return settings.deadline_s
    return DEADLINE_OVER_PROMISE * settings.promise_s


class Service:
    """A package on its way to being ready, and its end."""

    def __init__(self, package: Package, app: App, settings: Settings, *, url: str, token: str | None) -> None:
        self.package = package
        self.app = app
        self.settings = settings
        self.url = url
        self.token = token
        self.worker: Thread | None = None

    async def open(self, listener: Listener) -> Started:
        """Load, prove, warm up, choose the delay, rehearse; then be ready. Raises NetdynoError."""
        self.worker = worker = Thread()
        warm = await worker.do(lambda: self._warmed(listener))
        worker.call = warm.call
        listener(Event("choosing the queue delay"))
        # In the worker's thread: it has a loop of its own, in virtual time.
        delay = await worker.do(lambda: self._delay(warm))
        batcher = Batcher(
            Inline(warm.call) if inline(warm) else worker,
            warm.costs,
            most_waiting=self._waiting_rows(warm),
            delay_s=delay.delay_s,
            ran=self.app.metrics.batch,
        )
        example = self.package.example()[0]
        await rehearse(self.package, batcher, example, [one.rows for one in warm.sizes])
        # What is alive now stays alive: the collector need not walk through it while somebody waits.
        gc.collect()
        gc.freeze()
        self.app.open(batcher, tiled(example, 1))
        self.app.logs.say(
            "ready", url=self.url, model=self.package.manifest.name, version=self.package.manifest.version
        )
        return Started(
            url=self.url, token=self.token, warmed=warm, delay=delay,
            waiting_rows=batcher.most_waiting, deadline_s=self.app.limits.deadline_s,
        )  # fmt: skip

    def _delay(self, warm: Warmed) -> Chosen:
        settings = self.settings
        return chosen(warm, promise_s=settings.promise_s, share=settings.share, given=settings.delay_s)

    def _warmed(self, listener: Listener) -> Warmed:
        listener(Event(f"loading `{self.package.manifest.name}`"))
        warm = warmed(
            self.package, self.package.call(), exact=self.settings.exact, largest=self.settings.rows, listener=listener
        )
        self.package.proven(warm.call)
        return warm

    def _waiting_rows(self, warm: Warmed) -> int:
        if self.settings.waiting_rows is not None:
            return self.settings.waiting_rows
        seconds = deadline_of(self.settings) or 1.0
        row = sum(array[:1].nbytes for array in self.package.example()[0])
        most = min(MOST_WAITING, math.ceil(seconds / warm.costs.per_row), MOST_WAITING_BYTES // max(1, row))
        return max(LEAST_WAITING, 2 * warm.costs.largest, most)

    def close(self) -> None:
        """Let the worker end."""
        if self.worker is not None:
            self.worker.close()


def inline(warm: Warmed) -> bool:
    """Whether the model is run in the event loop: beside it there is no core, or nothing to be won."""
    return cores() == 1 or warm.costs.of(warm.costs.largest) < QUICKER_THAN_A_HAND_OVER_S


async def watched(app: App, settings: Settings, hot_c: float) -> None:
    """Look at temperature and power until the service ends; every decision is a line in the log."""
    loop = asyncio.get_running_loop()
    guard = thermal.Guard(
        thermal.sensors(clock=loop.time),
        thermal.Limits(hot_c=hot_c, cool_c=hot_c - 10.0),
        switch=settings.switch,
        armed=settings.switch is not None,
        latency=app.late_p99,
        tell=lambda says: app.logs.say("thermal", says=says),
    )
    while not app.ending:
        # A command may take seconds: not in the loop that answers.
        await loop.run_in_executor(None, guard.look, loop.time())
        await asyncio.sleep(LOOK_S)


async def rehearse(package: Package, batcher: Batcher, example: Arrays, sizes: list[int]) -> None:
    """Ask an application of the same making everything that clients will ask, so that nothing is done for the first time later."""
    manifest = package.manifest
    app = App(
        manifest,
        limits=Limits(rows=max(sizes), bytes=1 << 40),
        door=Door("127.0.0.1", None),
        metrics=Metrics(manifest),
        logs=Logs(LogLevel.NONE),
    )
    app.open(batcher)
    for size in sizes:
        rows = tiled(example, size)
        for _ in range(REHEARSALS):
            status, _, answer = await asked(app, f"/v2/models/{manifest.name}/infer", inference(package, rows))
            if status != HTTPStatus.OK:
                raise NetdynoError(
                    f"cannot serve `{manifest.name}`",
                    because=f"its own example is answered with {status}: {answer[:300].decode(errors='replace')}",
                    hint="deploy it again, and look at the example that its release gives",
                )
    await asked(app, "/metrics", b"", method="GET")


def inference(package: Package, rows: Arrays) -> bytes:
    """The JSON of an inference request for some rows."""
    ports = package.manifest.signature.inputs
    return msgspec.json.encode(
        {
            "inputs": [
                {
                    "name": port.name,
                    "shape": array.shape,
                    "datatype": DATATYPES[port.dtype],
                    "data": np.ravel(array).tolist(),
                }
                for port, array in zip(ports, rows, strict=True)
            ]
        }
    )


async def asked(
    app: App, path: str, body: bytes, *, method: str = "POST", headers: tuple[tuple[bytes, bytes], ...] = ()
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Ask an application without a network: status, headers, body."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    given = ((b"host", b"localhost"), (b"content-type", b"application/json"), *headers)
    await app({"type": "http", "method": method, "path": path, "headers": list(given)}, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(part.get("body", b"") for part in sent[1:])


def _run(
    service: Service,
    config: "uvicorn.Config",
    listening: Any,
    said: Callable[[Started], None],
    listener: Listener,
) -> None:
    """Run uvicorn around the service; what kept it from being ready is raised."""
    import uvicorn

    app, settings = service.app, service.settings
    failed: list[BaseException] = []

    class Server(uvicorn.Server):
        """Begins with the warm-up, and ends in two steps: not ready first, then no more."""

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            self.loop = asyncio.get_running_loop()
            self.opening = asyncio.create_task(self.begin())

        async def begin(self) -> None:
            try:
                said(await service.open(listener))
            except BaseException as error:
                failed.append(error)
                self.should_exit = True
                return
            if settings.for_s is not None:
                self.loop.call_later(settings.for_s, self.end)
            if settings.hot_c is not None:
                self.watching = asyncio.create_task(watched(app, settings, settings.hot_c))

        def end(self) -> None:
            if not app.ending:
                app.end()
                app.logs.say("ending", in_flight=app.batcher.in_flight if app.batcher else 0)
                self.loop.call_later(settings.farewell_s, setattr, self, "should_exit", True)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  as uvicorn calls it
            if app.ending or sig not in {signal.SIGINT, signal.SIGTERM} or app.batcher is None:
                self.should_exit = True
                self.force_exit = app.ending
            else:
                self.loop.call_soon_threadsafe(self.end)

    server = Server(config)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # the usual end, on a terminal
        pass
    finally:
        service.close()
    app.logs.say("ended")
    if failed:
        raise failed[0]
