"""Offers requests to a service at a rate of its own choosing, and counts each from when it was due.

The loop is open: a server that stands still does not stop the arrivals, and what became due meanwhile has waited. A closed loop, in
which the next request waits for the last answer, leaves exactly those out (coordinated omission).
"""

import asyncio
import contextlib
import gc
import random
import selectors
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from netdyno.errors import NetdynoError
from netdyno.records.deployment import Percentile
from netdyno.records.load import Arrivals, Offered
from netdyno.runtimes._base import missing
from netdyno.serving.load_server import Server, found
from netdyno.stats.percentiles import percentile

SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)
# Above this part of a core the generator itself is what is measured: its own queue grows before the server's does.
BUSY = 0.8
# A lag below this is what any timer of an operating system has.
UNNOTICED_S = 0.0005
SWEEP_S = 0.02  # how often requests that have timed out are looked for
HEAD_START_S = 0.05  # between opening the connections and the first arrival


class Where(NamedTuple):
    """A place to send requests to: `address` is what the host's name stands for, `headers` are lines that go with every request."""

    host: str
    port: int
    path: str = "/"
    tls: bool = False
    address: str = ""
    headers: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """As a person writes it."""
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}{self.path}"


class Request(NamedTuple):
    """One request as it goes over the wire. `right` says whether an answer's body is one; None: whatever comes with status 2xx."""

    wire: bytes
    right: Callable[[bytes], bool] | None = None


class Answer(NamedTuple):
    """What came back. Status 0: nothing did."""

    status: int
    body: bytes
    says: str = ""


def wire(where: Where, *, method: str = "POST", path: str | None = None, body: bytes = b"", kind: str = "") -> bytes:
    """A request in HTTP/1.1 that keeps its connection."""
    lines = [
        f"{method} {path or where.path} HTTP/1.1",
        f"Host: {where.host}:{where.port}",
        "Accept: */*",
        *where.headers,
    ]
    if body or method == "POST":
        lines += [f"Content-Type: {kind or 'application/json'}", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def due(rate: float, seconds: float, *, arrivals: Arrivals = "poisson", seed: int = 0) -> list[float]:
    """When each request is due, in seconds from the start.

    >>> due(4, 1, arrivals="constant")
    [0.0, 0.25, 0.5, 0.75]
    """
    if arrivals == "constant":
        return [at / rate for at in range(max(1, round(rate * seconds)))]
    chance = random.Random(seed)
    times: list[float] = []
    at = chance.expovariate(rate)
    while at < seconds:
        times.append(at)
        at += chance.expovariate(rate)
    return times or [0.0]


def offered(
    where: Where,
    requests: Sequence[Request],
    *,
    rate: float,
    seconds: float,
    arrivals: Arrivals = "poisson",
    connections: int = 64,
    timeout_s: float = 5.0,
    shares: Sequence[float] = SHARES,
    level: float = 0.95,
    seed: int = 0,
    hopeless: Callable[[float], bool] | None = None,
) -> Offered:
    """Offer requests, in turn, at `rate` per second for so many seconds. Raises NetdynoError when the service cannot be reached.

    `hopeless` is told the seconds of each request as it ends; once it says True nothing more is sent.
    """
    _needed()
    times = due(rate, seconds, arrivals=arrivals, seed=seed)
    server = found(where.port) if _is_here(where) else None
    before = server.cpu() if server else 0.0
    engine = _Engine(where, requests, times, connections=connections, timeout_s=timeout_s, hopeless=hopeless)
    with _quiet_collector():
        cpu, began = time.process_time(), time.perf_counter()
        _run(engine.run())
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    return _told(
        engine, rate=rate, arrivals=arrivals, seconds=seconds, shares=shares, level=level, generator_cpu=cpu / wall,
        server=server, before=before,
    )  # fmt: skip


def exchange(where: Where, messages: Sequence[bytes], *, timeout_s: float = 30.0) -> list[Answer]:
    """One request after the other over one connection, untimed: to ask, to warm up. Raises NetdynoError when nobody is there."""
    _needed()
    answers: list[Answer] = []

    async def ask() -> None:
        connection = await _connected(where)
        for message in messages:
            if connection.closed:
                connection = await _connected(where)
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            connection.send(message, future.set_result)
            try:
                answers.append(await asyncio.wait_for(future, timeout_s))
            except TimeoutError:
                connection.forget()
                await asyncio.sleep(0)
                raise NetdynoError(
                    f"`{where.url}` does not answer",
                    because=f"nothing came back within {timeout_s:g} s",
                    hint="look at what the service says",
                ) from None
        connection.close()
        await asyncio.sleep(0)  # hanging up takes a turn of the loop

    _run(ask())
    return answers


def _needed() -> None:
    lacks = missing(("httptools",))
    if lacks is not None:
        raise NetdynoError("cannot load a service", because=lacks.split(":")[0], hint=lacks.split(": ")[1])


def _is_here(where: Where) -> bool:
    return where.address.startswith("127.") or where.address == "::1"


def _run(work: Any) -> None:
    """On a loop whose timers are as fine as the system's: epoll rounds each wait up to a millisecond."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(work)


@contextlib.contextmanager
def _quiet_collector() -> Iterator[None]:
    """No pauses of the generator's own garbage collector between arrivals."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Connection(asyncio.Protocol):
    """One kept-alive connection that carries one request at a time."""

    def __init__(self, freed: "Callable[[_Connection], None] | None" = None) -> None:
        self.freed = freed
        self.closed = False
        self._done: Callable[[Answer], None] | None = None
        self._body: list[bytes] = []
        self._parser: Any = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, message: bytes, done: Callable[[Answer], None]) -> None:
        """Send one request; `done` gets its answer."""
        import httptools

        assert self._transport is not None
        self._done, self._body, self._parser = done, [], httptools.HttpResponseParser(self)
        self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        import httptools

        if self._parser is None:  # what nobody asked for: a server that shouts is not understood
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._answered(Answer(0, b"", f"no HTTP: {error}"))
            self.close()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        parser = self._parser
        if 100 <= parser.get_status_code() < 200:  # an interim answer: the real one follows
            return
        keep = parser.should_keep_alive()
        self._parser = None
        self._answered(Answer(parser.get_status_code(), b"".join(self._body)))
        if not keep:
            self.close()
        elif self.freed is not None:
            self.freed(self)

    def connection_lost(self, _: Exception | None) -> None:
        self.closed = True
        self._answered(Answer(0, b"", "connection lost"))
        if self.freed is not None:
            self.freed(self)

    def close(self) -> None:
        """Give the connection up, and with it what it carries."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def forget(self) -> None:
        """Hang up; nobody waits for what it carries, and nobody is told."""
        self._done = self.freed = None
        self.close()

    def _answered(self, answer: Answer) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(answer)


async def _connected(where: Where, freed: Callable[[_Connection], None] | None = None) -> _Connection:
    loop = asyncio.get_running_loop()
    context = ssl.create_default_context() if where.tls else None
    try:
        _, connection = await asyncio.wait_for(
            loop.create_connection(
                lambda: _Connection(freed), where.address or where.host, where.port, ssl=context,
                server_hostname=where.host if context else None,
            ),
            10.0,
        )  # fmt: skip
    except (OSError, TimeoutError) as error:
        raise NetdynoError(
            f"cannot reach `{where.url}`",
            because=f"{error.strerror or error}" if isinstance(error, OSError) else "nobody answers there",
            hint="start the service first: `netdyno serve PACKAGE` prints its address",
        ) from error
    return connection


class _Engine:
    """One stretch of load while it runs."""

    def __init__(
        self,
        where: Where,
        requests: Sequence[Request],
        times: Sequence[float],
        *,
        connections: int,
        timeout_s: float,
        hopeless: Callable[[float], bool] | None,
    ) -> None:
        self.where, self.requests, self.times = where, requests, times
        self.connections, self.timeout_s, self.hopeless = connections, timeout_s, hopeless
        self.taken: list[float | None] = [None] * len(times)
        self.lags = [0.0] * len(times)
        self.failures: dict[str, int] = {}
        self.given_up = False
        self.waited = self.most_in_flight = self.fired = 0
        self._idle: list[_Connection] = []
        self._open = 0
        self._queue: deque[int] = deque()
        self._carried: dict[int, _Connection] = {}
        self._ended = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Send everything when it is due, and wait for the last answer or its time-out."""
        loop = self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = loop.create_future()
        try:
            for _ in range(self.connections):
                self._idle.append(await _connected(self.where, self._freed))
                self._open += 1
            self._began = loop.time() + HEAD_START_S
            loop.call_at(self._began + self.times[0], self._fire_due)
            loop.call_later(SWEEP_S, self._sweep)
            await self._over
        finally:
            for connection in (*self._idle, *self._carried.values()):
                connection.forget()
            await asyncio.sleep(0)  # hanging up takes a turn of the loop

    def _fire_due(self) -> None:
        """Send whatever is due by now, and come back for the next."""
        now = self._loop.time()
        while self.fired < len(self.times) and self._began + self.times[self.fired] <= now + 1e-6:
            number = self.fired
            self.fired += 1
            self.lags[number] = max(0.0, now - self._began - self.times[number])
            if self._idle:
                self._send(self._idle.pop(), number)
            else:
                self.waited += 1
                self._queue.append(number)
        if self.fired < len(self.times) and not self._over.done():
            self._loop.call_at(self._began + self.times[self.fired], self._fire_due)

    def _send(self, connection: _Connection, number: int) -> None:
        self._carried[number] = connection
        self.most_in_flight = max(self.most_in_flight, len(self._carried))
        request = self.requests[number % len(self.requests)]

        def done(answer: Answer) -> None:
            self._carried.pop(number, None)
            self._end(number, _fault(answer, request))

        connection.send(request.wire, done)

    def _freed(self, connection: _Connection) -> None:
        """A connection has carried its request, or is lost: the longest waiting goes next."""
        if connection.closed:
            with contextlib.suppress(ValueError):
                self._idle.remove(connection)
            self._open -= 1
            if not self._over.done():
                self._replace()
        elif self._queue:
            self._send(connection, self._queue.popleft())
        else:
            self._idle.append(connection)

    def _replace(self) -> None:
        task = self._loop.create_task(self._replaced())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replaced(self) -> None:
        if self._open >= self.connections:
            return
        self._open += 1
        try:
            connection = await _connected(self.where, self._freed)
        except NetdynoError:
            self._open -= 1
            # The service is gone or takes no more connections: what waits for one ends by its time-out, and we try again.
            if not self._over.done():
                await asyncio.sleep(SWEEP_S * 5)
                self._replace()
            return
        self._freed(connection)

    def _end(self, number: int, fault: str | None) -> None:
        if self.taken[number] is not None:
            return
        taken = self._loop.time() - self._began - self.times[number]
        if fault is None and taken > self.timeout_s:
            fault = "timeout"
        if fault is not None:
            self.failures[fault] = self.failures.get(fault, 0) + 1
        self.taken[number] = taken = self.timeout_s if fault is not None else taken
        self._ended += 1
        if self.hopeless is not None and not self.given_up and self.hopeless(taken):
            self.given_up = True
            self.times = self.times[: self.fired]
        if self._ended == len(self.times) and not self._over.done():
            self._over.set_result(None)

    def _sweep(self) -> None:
        """End what has waited too long: HTTP/1.1 knows no other way to take a request back than to hang up."""
        late = self._loop.time() - self._began - self.timeout_s
        while self._queue and self.times[self._queue[0]] <= late:
            self._end(self._queue.popleft(), "timeout")
        for number in [number for number in self._carried if self.times[number] <= late]:
            connection = self._carried.pop(number)
            self._end(number, "timeout")
            connection.close()
        if not self._over.done():
            self._loop.call_later(SWEEP_S, self._sweep)


def _fault(answer: Answer, request: Request) -> str | None:
    """Why an answer is none, or None."""
    if not answer.status:
        return answer.says
    if not 200 <= answer.status < 300:
        return f"HTTP {answer.status}"
    if request.right is not None and not request.right(answer.body):
        return "wrong answer"
    return None


def _told(
    engine: _Engine,
    *,
    rate: float,
    arrivals: Arrivals,
    seconds: float,
    shares: Sequence[float],
    level: float,
    generator_cpu: float,
    server: Server | None,
    before: float,
) -> Offered:
    sent = len(engine.times)
    samples = [taken for taken in engine.taken[:sent] if taken is not None]
    lags = engine.lags[:sent]
    percentiles = tuple(percentile(samples, share, level) for share in shares)
    lag = percentile(lags, 0.99, level)
    answered = max(1, sent - sum(engine.failures.values()))
    return Offered(
        rate=rate, arrivals=arrivals, seconds=seconds, due=sent, samples=tuple(round(one, 7) for one in samples),
        failures=dict(sorted(engine.failures.items())), timeout_s=engine.timeout_s, percentiles=percentiles, lag=lag,
        lags=tuple(round(one, 7) for one in lags),
        connections=engine.connections, most_in_flight=engine.most_in_flight, waited=engine.waited,
        generator_cpu=generator_cpu, given_up=engine.given_up,
        server_cpu_s=(server.cpu() - before) / answered if server else None,
        server_bytes=server.memory() if server else None,
        says=tuple(_remarks(percentiles, lag, generator_cpu, engine)),
    )  # fmt: skip


def _remarks(
    percentiles: Sequence[Percentile], lag: Percentile, generator_cpu: float, engine: _Engine
) -> Iterator[str]:
    if generator_cpu > BUSY:
        yield f"the generator itself used {generator_cpu:.0%} of a core: it, not the service, may be what is measured"
    typical = min((one.seconds for one in percentiles), default=0.0)
    if lag.seconds > max(UNNOTICED_S, typical / 10):
        yield (
            f"the generator sent one request in a hundred {lag.seconds * 1e3:.1f} ms late or later: its core was taken; "
            "latencies hold that too"
        )
    if engine.waited:
        yield (
            f"{engine.waited} requests waited for one of {engine.connections} connections; the wait is in their latency"
        )
