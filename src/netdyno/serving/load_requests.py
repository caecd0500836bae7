"""What is sent to a service: rows in the Open Inference Protocol, a package's own example, or a file; and what answers are right."""

import ipaddress
import json
import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from netdyno.errors import NetdynoError
from netdyno.runtimes._base import Arrays
from netdyno.serving.offered import Answer, Request, Where, exchange, wire
from netdyno.shipping.package import Package, distance

# Of the spread of the answers: a service sums in another order when it batches.
ALLOWED = 1e-3
# Different rows, so that no cache of the service answers for the model.
BODIES = 32
ADMITTED = "localhost, 127.0.0.1 or ::1"

DATATYPES = {
    "BOOL": "bool", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8",
    "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip


def where(url: str, *, anywhere: bool = False, headers: Sequence[str] = ()) -> Where:
    """The place that an address stands for. Raises NetdynoError for one that is not this machine, unless `anywhere`.

    `headers` are lines like `Authorization: Bearer …` that go with every request.
    """
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == -1:
        raise NetdynoError(
            f"cannot load `{url}`",
            because="it is no address of a service",
            hint="give one like `http://127.0.0.1:8000`",
        )
    port = port or (443 if parts.scheme == "https" else 80)
    try:
        addresses = [str(one[4][0]) for one in socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)]
    except OSError as error:
        raise NetdynoError(
            f"cannot load `{url}`", because=f"`{parts.hostname}` is not known: {error.strerror}", hint="check the name"
        ) from None
    if not anywhere and not all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in addresses):
        raise NetdynoError(
            f"`{url}` is not loaded",
            because=f"`{addresses[0]}` is not this machine, and load on somebody's service without their leave is an attack",
            hint=f"load {ADMITTED}; if the service is yours, say `--anywhere`",
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Where(parts.hostname, port, path, parts.scheme == "https", addresses[0], _headers(headers))


def _headers(lines: Sequence[str]) -> tuple[str, ...]:
    stripped = tuple(line.strip() for line in lines if line.strip())
    wrong = next((line for line in stripped if not re.fullmatch(r"[\w-]+:\s*[\x21-\x7e][\x20-\x7e]*", line)), None)
    if wrong is not None:
        # What stands there may be a secret: only its name is repeated.
        raise NetdynoError(
            f"cannot send the header `{wrong.partition(':')[0][:40]}`", because="it is not a line `Name: value`",
            hint="one header a line, in plain letters",
        )  # fmt: skip
    return stripped


def of_package(place: Where, model: str, package: Package, *, rows: int = 1) -> tuple[Request, ...]:
    """The example rows of a package, and its own answers to them as what is right."""
    inputs, answers = package.example()
    ports = package.manifest.signature.inputs
    named = dict(zip((port.name for port in ports), inputs, strict=True))
    windows = [np.arange(at, at + rows) % len(inputs[0]) for at in range(min(BODIES, len(inputs[0])))]
    return tuple(
        _infer(place, model, {name: array[window] for name, array in named.items()},
               _as(tuple(answer[window] for answer in answers), package.manifest.allowed))
        for window in windows
    )  # fmt: skip


def of_metadata(place: Where, model: str, *, rows: int = 1, seed: int = 0) -> tuple[Request, ...]:
    """Random rows of the form that the model's metadata asks for; right are the answers that it gives them at first."""
    answer = exchange(place, [wire(place, method="GET", path=f"/v2/models/{model}")])[0]
    described = _object(answer, place, f"what `{model}` takes")
    chance = np.random.default_rng(seed)
    bodies = [
        {port["name"]: _random(port, rows, chance) for port in described.get("inputs", ())} for _ in range(BODIES)
    ]
    asked = tuple(_infer(place, model, body) for body in bodies)
    return tuple(
        request._replace(right=_as(_arrays(first.body), ALLOWED))
        for request, first in zip(asked, answered(place, asked), strict=True)
    )


def of_files(place: Where, files: Sequence[Path], *, expected: Path | None = None) -> tuple[Request, ...]:
    """The bodies in files as they are. With `expected`, an answer is right when it says the same: numbers to a thousandth."""
    kinds = {".json": "application/json", ".txt": "text/plain"}
    right = _says_like(_read(expected)) if expected is not None else None
    return tuple(
        Request(wire(place, body=_read(file), kind=kinds.get(file.suffix, "application/octet-stream")), right)
        for file in files
    )


def model_of(place: Where, model: str | None) -> str:
    """The model that is meant: as named, in the address, or the only one that the service lists. Raises NetdynoError."""
    parts = place.path.split("/")
    if model is not None:
        return model
    if "models" in parts[:-1]:
        return parts[parts.index("models") + 1]
    found = _listed(place)
    if len(found) == 1:
        return found[0]
    raise NetdynoError(
        f"cannot tell which model of `{place.url}` to load",
        because=f"it has {', '.join(f'`{one}`' for one in found)}" if found else "it lists none",
        hint="name it: `--model NAME`; for another kind of service, give a request body: `--body FILE`",
    )


def _listed(place: Where) -> list[str]:
    """The models that our own service tells at /v2, or that the model repository extension's index has."""
    ours, index = (
        _decoded(answer)
        for answer in exchange(
            place, [wire(place, method="GET", path="/v2"), wire(place, path="/v2/repository/index", body=b"{}")]
        )
    )
    try:
        return [str(one) for one in ours["models"]] if ours and "models" in ours else [one["name"] for one in index]
    except (TypeError, KeyError):
        return []


def _decoded(answer: Answer) -> Any:
    try:
        return json.loads(answer.body) if 200 <= answer.status < 300 else None
    except ValueError:
        return None


def answered(place: Where, requests: Sequence[Request], *, rounds: int = 1) -> list[Answer]:
    """The answers to all requests, one after the other: it warms the service up. Raises NetdynoError for one that is refused."""
    answers = exchange(place, [request.wire for _ in range(rounds) for request in requests])
    bad = next((one for one in answers if not 200 <= one.status < 300), None)
    if bad is not None:
        raise NetdynoError(
            f"`{place.url}` refuses the request",
            because=f"it answers {bad.status or bad.says}: {bad.body[:200].decode(errors='replace')}".rstrip(": "),
            hint="check the model's name and the body; `curl` shows the whole answer",
        )
    return answers


def _infer(
    place: Where, model: str, arrays: dict[str, np.ndarray[Any, Any]], right: Callable[[bytes], bool] | None = None
) -> Request:
    kinds = {name: kind for kind, name in DATATYPES.items()}
    inputs = [
        {"name": name, "shape": list(array.shape), "datatype": kinds[str(array.dtype)], "data": array.ravel().tolist()}
        for name, array in arrays.items()
    ]
    path = f"/v2/models/{model}/infer"
    return Request(wire(place, path=path, body=json.dumps({"inputs": inputs}).encode()), right)


def _random(port: dict[str, Any], rows: int, chance: np.random.Generator) -> np.ndarray[Any, Any]:
    kind, shape = DATATYPES.get(port.get("datatype", "")), [int(size) for size in port.get("shape", [])[1:]]
    if kind is None or any(size < 1 for size in shape):
        raise NetdynoError(
            f"cannot make rows for the input `{port.get('name')}`",
            because=f"it takes `{port.get('datatype')}` of shape {port.get('shape')}, and that leaves it open what to send",
            hint="give them: `--package FOLDER` sends a package's example, `--body FILE` what is in a file",
        )
    if kind.startswith("float"):
        return chance.standard_normal((rows, *shape)).astype(kind)
    return chance.integers(0, 2, (rows, *shape)).astype(kind)


def _object(answer: Answer, place: Where, what: str) -> dict[str, Any]:
    found = _decoded(answer)
    if isinstance(found, dict):
        return found
    raise NetdynoError(
        f"`{place.url}` does not say {what}",
        because=f"it answers {answer.status or answer.says}: {answer.body[:200].decode(errors='replace')}".rstrip(": "),
        hint="is it an Open Inference Protocol service? If not, give a request body: `--body FILE`",
    )


def _arrays(body: bytes) -> Arrays:
    """The outputs of an answer in the Open Inference Protocol. Raises ValueError, KeyError or TypeError for another."""
    return tuple(
        np.asarray(one["data"], dtype=DATATYPES[one["datatype"]]).reshape(one["shape"])
        for one in json.loads(body)["outputs"]
    )


def _as(expected: Arrays, allowed: float) -> Callable[[bytes], bool]:
    """Whether a body holds these outputs. One whose outputs are equal to an answer that was right is not parsed again."""
    known: set[bytes] = set()

    def right(body: bytes) -> bool:
        outputs = body[body.find(b'"outputs"') :]
        if outputs in known:
            return True
        try:
            found = _arrays(body)
        except (ValueError, KeyError, TypeError):
            return False
        if len(found) != len(expected) or any(
            distance(one, other) > allowed for one, other in zip(found, expected, strict=True)
        ):
            return False
        if len(known) < 8:
            known.add(outputs)
        return True

    return right


def _says_like(expected: bytes) -> Callable[[bytes], bool]:
    try:
        meant = json.loads(expected)
    except ValueError:
        return lambda body: body.strip() == expected.strip()

    def right(body: bytes) -> bool:
        try:
            return _alike(json.loads(body), meant)
        except ValueError:
            return False

    return right


def _alike(one: Any, other: Any) -> bool:
    """Equal, numbers to a thousandth. What only the answer has (an id, a time) is not compared."""
    if isinstance(other, dict):
        return isinstance(one, dict) and all(key in one and _alike(one[key], other[key]) for key in other)
    if isinstance(other, list):
        return isinstance(one, list) and len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(other, bool) or not isinstance(other, int | float):
        return bool(one == other)
    return isinstance(one, int | float) and abs(one - other) <= ALLOWED * max(1.0, abs(other))


def lines(file: Path) -> tuple[str, ...]:
    """The lines of a file. Raises NetdynoError when it cannot be read."""
    return tuple(_read(file).decode(errors="replace").splitlines())


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise NetdynoError(
            f"cannot read `{file}`", because=str(error.strerror), hint="name a file that holds one request body"
        ) from None
