"""What a client asks over HTTP: the Open Inference Protocol v2 under /v2, a plain form at /predict, and metrics.

It speaks ASGI itself: between uvicorn and the batcher lies nothing that costs.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from netdyno import __version__
from netdyno.records.deployment import Manifest
from netdyno.runtimes._base import Arrays
from netdyno.serving import tensors
from netdyno.serving.batcher import Answer, Batcher, Closed, Gone, Late, Refused
from netdyno.serving.door import Door
from netdyno.serving.logs import Logs, ids, sane_id
from netdyno.serving.metrics import Metrics
from netdyno.serving.problems import Problem, malformed, unfit
from netdyno.serving.tensors import DATATYPES, Asked, Written

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON, BYTES, TEXT = "application/json", "application/octet-stream", "text/plain; charset=utf-8"
# The binary extension's header: how many bytes of the body are JSON.
JSON_LENGTH = "inference-header-content-length"
DEADLINE = b"x-deadline-ms"
SLOWEST_BODY_S = 10.0  # a client that takes longer to send its request holds a place for nothing
LONGEST_DEADLINE_S = 600.0
LATE = 1000  # answers that are remembered, for a P99 of late
STUCK_S = 60.0  # a batch that has run this long will not come back: the orchestrator may restart the service
BAD, GONE = HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request may be. `deadline_s` is for requests that name none themselves; None lets them wait."""

    rows: int
    bytes: int
    deadline_s: float | None = None


class Reply(NamedTuple):
    """What is sent back."""

    status: int
    body: bytes
    kind: str = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Request(NamedTuple):
    """What was asked, less its body."""

    scope: Scope
    headers: dict[bytes, bytes]
    receive: Receive


Handler = Callable[[Request], Awaitable[Reply]]


class App:
    """Answers. It is ready once it was given a batcher by `open`, until `end`."""

    def __init__(self, manifest: Manifest, *, limits: Limits, door: Door, metrics: Metrics, logs: Logs) -> None:
        self.manifest = manifest
        self.signature = manifest.signature
        self.limits = limits
        self.door = door
        self.metrics = metrics
        self.logs = logs
        self.batcher: Batcher | None = None
        self.example: Arrays | None = None
        self.ending = False
        self.says = "it is loading and warming up"
        self._late: deque[float] = deque(maxlen=LATE)
        self._id = ids()
        self._model = f"/v2/models/{manifest.name}"
        self._routes = self._paths()
        metrics.watch(
            in_flight=lambda: self.batcher.in_flight if self.batcher else 0,
            waiting=lambda: self.batcher.waiting_rows if self.batcher else 0,
            ready=lambda: float(self.ready),
        )

    @property
    def ready(self) -> bool:
        """Whether requests are welcome."""
        return self.batcher is not None and not self.ending

    def open(self, batcher: Batcher, example: Arrays | None = None) -> None:
        """Be ready. `example` is one row that the model is known to answer."""
        self.batcher = batcher
        self.example = example

    def end(self) -> None:
        """Be ready no more; what is asked meanwhile is still answered."""
        self.ending = True

    def late_p99(self) -> float | None:
        """P99 of the last answers, None where there are too few for one."""
        there = sorted(self._late)
        return there[math.ceil(0.99 * len(there)) - 1] if len(there) >= LATE // 10 else None

    def _paths(self) -> dict[str, tuple[str, Handler]]:
        """Every path with its method and what answers it."""
        paths: dict[str, tuple[str, Handler]] = {
            "/predict": ("POST", self._predict),
            "/metrics": ("GET", self._metrics),
            "/v2": ("GET", self._server),
            "/v2/health/live": ("GET", self._live),
            "/v2/health/ready": ("GET", self._ready),
        }
        for model in (self._model, f"{self._model}/versions/{self.manifest.version}"):
            paths[model] = ("GET", self._metadata)
            paths[f"{model}/ready"] = ("GET", self._ready)
            paths[f"{model}/infer"] = ("POST", self._infer)
        return paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        loop = asyncio.get_running_loop()
        began = loop.time()
        headers = dict(scope["headers"])
        name = sane_id(headers.get(b"x-request-id", b"")) or self._id()
        path, detail = scope["path"], ""
        try:
            reply = await self._routed(Request(scope, headers, receive), path)
        except Problem as problem:
            reply, detail = told(problem), problem.says
        except Exception as error:
            detail = f"{type(error).__name__}: {error}"
            reply = told(Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "the model failed on this request"))
        seconds = loop.time() - began
        await _sent(send, reply, name, body=scope["method"] != "HEAD")
        known = path in self._routes
        self.metrics.request(path if known else "other", reply.status)
        if reply.status == HTTPStatus.OK and known and self._routes[path][0] == "POST":
            self.metrics.seconds.observe(seconds)
            self._late.append(seconds)
        if self.logs.wants(reply.status):
            facts = {"says": detail} if detail else {}
            self.logs.say(
                "request", id=name, method=scope["method"], path=path[:200], status=reply.status,
                ms=round(seconds * 1e3, 3), **facts,
            )  # fmt: skip

    async def _routed(self, request: Request, path: str) -> Reply:
        found = self._routes.get(path)
        self.door.check(request.headers, open_to_all=path.startswith("/v2/health/"))
        if found is None:
            raise self._nothing_at(path)
        method, handler = found
        given = request.scope["method"]
        if given != method and not (given == "HEAD" and method == "GET"):
            raise Problem(
                HTTPStatus.METHOD_NOT_ALLOWED, f"`{path}` takes {method}, not {given[:20]}", headers={"allow": method}
            )
        return await handler(request)

    def _nothing_at(self, path: str) -> Problem:
        parts = path.split("/")
        if len(parts) > 3 and parts[1:3] == ["v2", "models"] and parts[3] != self.manifest.name:
            return Problem(
                HTTPStatus.NOT_FOUND,
                f"there is no model `{parts[3][:80]}`",
                hint=f"it is called `{self.manifest.name}`",
            )
        if len(parts) > 5 and parts[4] == "versions" and parts[5] != self.manifest.version:
            return Problem(
                HTTPStatus.NOT_FOUND,
                f"there is no version `{parts[5][:40]}` here",
                hint=f"it is version `{self.manifest.version}`",
            )
        return Problem(
            HTTPStatus.NOT_FOUND, "there is nothing at this path", hint=f"POST to /predict or to {self._model}/infer"
        )

    async def _server(self, _request: Request) -> Reply:
        told_ = {
            "name": "netdyno", "version": __version__, "extensions": ["binary_tensor_data"], "models": [self.manifest.name],
        }  # fmt: skip
        return Reply(HTTPStatus.OK, msgspec.json.encode(told_))

    async def _live(self, _request: Request) -> Reply:
        began = self.batcher.began if self.batcher is not None else None
        live = began is None or asyncio.get_running_loop().time() - began < STUCK_S
        return Reply(HTTPStatus.OK if live else GONE, msgspec.json.encode({"live": live}))

    async def _ready(self, _request: Request) -> Reply:
        answer: dict[str, Any] = {"ready": self.ready}
        if not self.ready:
            answer["error"] = "it is ending" if self.ending else self.says
        return Reply(HTTPStatus.OK if self.ready else GONE, msgspec.json.encode(answer))

    async def _metadata(self, _request: Request) -> Reply:
        manifest = self.manifest
        ports = {
            side: [
                {"name": port.name, "datatype": DATATYPES[port.dtype], "shape": [-1, *(s or -1 for s in port.shape)]}
                for port in given
            ]
            for side, given in (("inputs", self.signature.inputs), ("outputs", self.signature.outputs))
        }
        told_ = {
            "name": manifest.name, "versions": [manifest.version], "platform": f"netdyno_{manifest.runtime.id}", **ports,
        }  # fmt: skip
        return Reply(HTTPStatus.OK, msgspec.json.encode(told_))

    async def _metrics(self, request: Request) -> Reply:
        body, kind = self.metrics.text(request.headers.get(b"accept", b"").decode("latin-1"))
        return Reply(HTTPStatus.OK, body, kind)

    async def _infer(self, request: Request) -> Reply:
        cut = _json_length(request.headers)
        body = await self._body(request, JSON if cut is None else BYTES)
        asked = tensors.read_inference(body, self.signature, most_rows=self.limits.rows, header_bytes=cut)
        arrays = await self._answered(asked, request)
        written = tensors.write_inference(
            asked, arrays, self.signature, name=self.manifest.name, version=self.manifest.version
        )
        return _written(written)

    async def _predict(self, request: Request) -> Reply:
        body = await self._body(request, JSON)
        asked = tensors.read_plain(body, self.signature, most_rows=self.limits.rows)
        arrays = await self._answered(asked, request)
        return _written(tensors.write_plain(arrays, self.signature, classes=self.manifest.classes))

    async def _answered(self, asked: Asked, request: Request) -> Arrays:
        """The outputs, by the deadline. Raises Problem."""
        if self.batcher is None:
            self.metrics.refused("not ready")
            raise busy(GONE, self.says, 1.0)
        wait = asked.timeout_s or _deadline(request.headers) or self.limits.deadline_s
        deadline = None if wait is None else asyncio.get_running_loop().time() + min(wait, LONGEST_DEADLINE_S)
        try:
            answer: Answer = await self.batcher.answer(
                asked.arrays, deadline=deadline, gone=partial(hung_up, request.receive)
            )
        except Refused as refused:
            self.metrics.refused("busy")
            raise busy(HTTPStatus.TOO_MANY_REQUESTS, str(refused), refused.retry_s) from None
        except Closed as closed:
            self.metrics.refused("ending")
            raise busy(GONE, str(closed), 1.0) from None
        except Gone as gone:
            self.metrics.refused("gone")
            raise malformed(str(gone)) from None
        except Late as late:
            self.metrics.refused("late")
            raise Problem(HTTPStatus.GATEWAY_TIMEOUT, str(late)) from None
        except Exception as error:
            raise await self._whose_fault(error) from error
        self.metrics.queued.observe(answer.queued_s)
        return answer.arrays

    async def _whose_fault(self, error: Exception) -> Exception:
        """The model raised: where it still answers its own example, the input was at fault (a token it does not know, for instance)."""
        if self.batcher is None or self.example is None:
            return error
        try:
            await self.batcher.answer(self.example)
        except Exception:
            return error
        return unfit(f"the model cannot answer this input: {_line(error)}", hint="it still answers its own example")

    async def _body(self, request: Request, kind: str) -> bytes:
        """The whole body, if it is of the right kind and not too large. Raises Problem."""
        self._may_be_sent(request.headers, kind)
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(SLOWEST_BODY_S):
                while more:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise malformed("the client went away")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = message.get("more_body", False)
                    if size > self.limits.bytes:
                        raise self._too_large()
        except TimeoutError:
            raise Problem(
                HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {SLOWEST_BODY_S:g} s", headers=CLOSE
            ) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _may_be_sent(self, headers: dict[bytes, bytes], kind: str) -> None:
        given = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        if given not in {kind, ""} and not (kind == BYTES and given == JSON):
            raise Problem(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"the body is sent as `{given[:60]}`",
                hint=f"send the header `content-type: {kind}`",
                headers=CLOSE,
            )
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise Problem(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body is compressed", hint="send it plain", headers=CLOSE
            )
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self.limits.bytes:
            raise self._too_large()

    def _too_large(self) -> Problem:
        return Problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body may have {self.limits.bytes} bytes",
            hint=f"send at most {self.limits.rows} rows at a time, or the binary extension",
            headers=CLOSE,
        )


CLOSE = {"connection": "close"}  # what is left of the body is not worth reading


def busy(status: HTTPStatus, says: str, retry_s: float) -> Problem:
    """Back-pressure: not now, and when again."""
    return Problem(status, says, headers={"retry-after": str(max(1, math.ceil(retry_s)))})


def told(problem: Problem) -> Reply:
    """A problem as the client reads it."""
    answer = {"error": problem.says, **({"hint": problem.hint} if problem.hint else {})}
    headers = tuple((name.encode(), value.encode("latin-1")) for name, value in problem.headers.items())
    return Reply(problem.status, msgspec.json.encode(answer), JSON, headers)


def _written(written: Written) -> Reply:
    if written.header_bytes is None:
        return Reply(HTTPStatus.OK, written.body)
    return Reply(HTTPStatus.OK, written.body, BYTES, ((JSON_LENGTH.encode(), str(written.header_bytes).encode()),))


async def _sent(send: Send, reply: Reply, name: str, *, body: bool) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": int(reply.status),
            "headers": [
                (b"content-type", reply.kind.encode()),
                (b"content-length", str(len(reply.body)).encode()),
                (b"x-request-id", name.encode()),
                *reply.headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": reply.body if body else b""})


def hung_up(receive: Receive) -> bool:
    """Whether the client has gone, where the server says so at once: uvicorn keeps it beside `receive`.

    ASGI itself only tells who waits for it, and a task that waits for every request costs more than most of them do.
    """
    return getattr(getattr(receive, "__self__", None), "disconnected", False) is True


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _json_length(headers: dict[bytes, bytes]) -> int | None:
    given = headers.get(JSON_LENGTH.encode())
    if given is None:
        return None
    if not given.isdigit() or len(given) > 12:
        raise malformed(f"`{JSON_LENGTH}` is no number of bytes")
    return int(given)


def _deadline(headers: dict[bytes, bytes]) -> float | None:
    given = headers.get(DEADLINE)
    if given is None:
        return None
    try:
        milliseconds = float(given)
    except ValueError:
        milliseconds = math.nan
    if not 0 < milliseconds < math.inf:
        raise unfit("`x-deadline-ms` is no positive number of milliseconds")
    return milliseconds / 1e3
