"""Requests read into arrays and answers written back: the Open Inference Protocol v2, its binary extension, and a plain form.

Nothing reaches the model that its signature does not name: names, types, shapes, counts and finiteness are looked at here, and what is
wrong is told with what was expected.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from netdyno.records.deployment import Port, Signature
from netdyno.runtimes._base import Arrays
from netdyno.serving.problems import Problem, malformed, unfit

# Names of the protocol for the types that arrays have.
DATATYPES = {
    "bool": "BOOL",
    "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
    "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
    "float16": "FP16", "float32": "FP32", "float64": "FP64",
}  # fmt: skip
BINARY = "binary_data_size"
DEEPEST = 8  # brackets within brackets; no model takes more dimensions
# Characters that a number in JSON may take, its comma included: a float64 in full needs 24.
CHARACTERS = 26
SPARE = 16_384  # bytes for names, shapes and braces around the numbers

Parameters = dict[str, Any]


class Input(msgspec.Struct):
    """One input as a client sends it; `data` is read when the shape is known."""

    name: str
    shape: list[int]
    datatype: str
    data: msgspec.Raw = msgspec.Raw()
    parameters: Parameters = msgspec.field(default_factory=dict)


class Wanted(msgspec.Struct):
    """One output that a client asks for."""

    name: str
    parameters: Parameters = msgspec.field(default_factory=dict)


class Inference(msgspec.Struct):
    """The JSON of an inference request."""

    inputs: list[Input]
    id: str = ""
    parameters: Parameters = msgspec.field(default_factory=dict)
    outputs: list[Wanted] = msgspec.field(default_factory=list)


class Output(msgspec.Struct, omit_defaults=True):
    """One output as it is answered."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: list[Any] | None = None
    parameters: Parameters = msgspec.field(default_factory=dict)


class Inferred(msgspec.Struct):
    """The JSON of an answer."""

    model_name: str
    model_version: str
    outputs: list[Output]
    id: str | None = None


class Asked(NamedTuple):
    """A request that was read. `wanted` are the outputs to give back by name, each with whether as bytes; empty: all, as JSON."""

    arrays: Arrays
    id: str = ""
    timeout_s: float | None = None
    wanted: tuple[tuple[str, bool], ...] = ()
    binary: bool = False


class Written(NamedTuple):
    """An answer as bytes; `header_bytes` is the length of its JSON where arrays follow it."""

    body: bytes
    header_bytes: int | None = None


_inference = msgspec.json.Decoder(Inference)


def most_bytes(signature: Signature, rows: int) -> int:
    """How many bytes a request with so many rows may have: its numbers written out in full, at least a megabyte where a length is free."""
    numbers = sum(math.prod(size or 1 for size in port.shape) for port in signature.inputs)
    free = any(size is None for port in signature.inputs for size in port.shape)
    whole = SPARE + rows * numbers * CHARACTERS
    return max(whole, 1 << 20) if free else whole


def read_inference(body: bytes, signature: Signature, *, most_rows: int, header_bytes: int | None = None) -> Asked:
    """A request of the Open Inference Protocol. Raises Problem.

    `header_bytes` is the length of the JSON when arrays follow it as bytes.
    """
    cut = len(body) if header_bytes is None else header_bytes
    if not 0 <= cut <= len(body):
        raise malformed(f"the header says that {cut} bytes are JSON, and the body has {len(body)}")
    try:
        asked = _inference.decode(memoryview(body)[:cut])
    except msgspec.ValidationError as error:
        raise malformed(
            f"the request is no inference request: {_first(error)}",
            hint='send {"inputs": [{"name", "shape", "datatype", "data"}]}',
        ) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise malformed(f"the body is no JSON: {_first(error)}", hint="NaN and infinity are not in JSON") from None
    given = _by_name(asked.inputs, signature)
    arrays, at = [], cut
    for one in asked.inputs:
        size = one.parameters.get(BINARY)
        if size is not None:
            at += _size(one, size)
    if at != len(body):
        raise malformed(f"the inputs' `{BINARY}` add up to {at - cut} bytes, and {len(body) - cut} follow the JSON")
    starts = _starts(asked.inputs, cut)
    for port in signature.inputs:
        one = given[port.name]
        shape = _shape(one, port, most_rows)
        raw = one.parameters.get(BINARY)
        array = (
            _from_json(one.data, port, shape, name=port.name)
            if raw is None
            else _from_bytes(memoryview(body)[starts[port.name] :][:raw], port, shape)
        )
        arrays.append(_finite(array, port))
    _same_rows(arrays, signature)
    return Asked(
        arrays=tuple(arrays),
        id=asked.id,
        timeout_s=_timeout(asked.parameters),
        wanted=tuple((one.name, one.parameters.get("binary_data") is True) for one in asked.outputs),
        binary=asked.parameters.get("binary_data_output") is True,
    )


def read_plain(body: bytes, signature: Signature, *, most_rows: int) -> Asked:
    """A request in the plain form: `{"inputs": rows}`, with names where there are several inputs, or the rows alone. Raises Problem."""
    like = plain_example(signature)
    try:
        given = msgspec.json.decode(body, type=dict[str, msgspec.Raw] if _opens_with(body, b"{") else msgspec.Raw)
        inside = given.get("inputs") if isinstance(given, dict) else given
        if inside is not None and _opens_with(bytes(memoryview(inside)[:64]), b"{"):
            named = msgspec.json.decode(inside, type=dict[str, msgspec.Raw])
        elif inside is not None and len(signature.inputs) == 1:
            named = {signature.inputs[0].name: inside}
        else:
            named = None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise malformed(f"the body is no JSON: {_first(error)}", hint=f"send {like}") from None
    if named is None:
        raise malformed("the body has no `inputs` that can be told apart", hint=f"send {like}")
    names = {port.name for port in signature.inputs}
    if named.keys() != names:
        raise unfit(f"the inputs are {_list(named)}, and the model takes {_list(names)}", hint=f"send {like}")
    arrays = []
    for port in signature.inputs:
        raw = named[port.name]
        depth = _depth(raw)
        single = depth == len(port.shape) and depth > 0
        nested = _decoded(raw, port, depth, name=port.name)
        array = _array([nested] if single else nested, port)
        if array.ndim != len(port.shape) + 1:
            raise unfit(f"`{port.name}` has {array.ndim} dimensions", hint=f"send {like}")
        _fits(array.shape, port, most_rows)
        arrays.append(_finite(array, port))
    _same_rows(arrays, signature)
    return Asked(arrays=tuple(arrays))


def plain_example(signature: Signature) -> str:
    """The plain form of this model in words."""
    forms = {port.name: f"[[… {'x'.join(str(s or 'any') for s in port.shape)} …], …]" for port in signature.inputs}
    if len(forms) == 1:
        return '{"inputs": ' + next(iter(forms.values())) + "}"
    return '{"inputs": {' + ", ".join(f'"{name}": {form}' for name, form in forms.items()) + "}}"


def output_names(signature: Signature, count: int) -> tuple[str, ...]:
    """Names of the outputs: as the signature says, else numbered."""
    given = tuple(port.name for port in signature.outputs)
    return given if len(given) == count else tuple(f"output{at}" for at in range(count))


def write_inference(asked: Asked, arrays: Arrays, signature: Signature, *, name: str, version: str) -> Written:
    """The answer in the protocol. Raises Problem for an output that is not there, or that JSON cannot hold."""
    names = output_names(signature, len(arrays))
    there = dict(zip(names, arrays, strict=True))
    wanted = asked.wanted or tuple((name, asked.binary) for name in names)
    unknown = [name for name, _ in wanted if name not in there]
    if unknown:
        raise unfit(f"the model has no output `{unknown[0]}`", hint=f"its outputs are {_list(names)}")
    outputs, parts = [], []
    for output, as_bytes in wanted:
        array = there[output]
        datatype = _datatype(array.dtype)
        if as_bytes or (asked.binary and asked.wanted):
            parts.append(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
            outputs.append(
                Output(name=output, datatype=datatype, shape=array.shape, parameters={BINARY: len(parts[-1])})
            )
        else:
            outputs.append(Output(name=output, datatype=datatype, shape=array.shape, data=_listed(array, output)))
    answer = Inferred(model_name=name, model_version=version, outputs=outputs, id=asked.id or None)
    header = msgspec.json.encode(answer)
    return Written(header + b"".join(parts), len(header)) if parts else Written(header)


def write_plain(arrays: Arrays, signature: Signature, *, classes: tuple[str, ...]) -> Written:
    """The answer in the plain form: outputs by name, and the label of each row where the package names classes."""
    names = output_names(signature, len(arrays))
    outputs = {name: _nested(_listed(array, name), array.shape) for name, array in zip(names, arrays, strict=True)}
    first = arrays[0]
    answer: dict[str, Any] = {"outputs": outputs}
    if classes and first.ndim == 2 and first.shape[1] == len(classes):
        answer["labels"] = [classes[at] for at in first.argmax(1).tolist()]
    return Written(msgspec.json.encode(answer))


@cache
def _datatype(dtype: "np.dtype[Any]") -> str:
    return DATATYPES[dtype.name]


def _listed(array: NDArray[Any], name: str) -> list[Any]:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        # Extreme inputs do this to a sound model; JSON has no word for it, and a null would be an answer that nobody gave.
        raise unfit(f"the model's `{name}` for this input is not finite", hint="ask for binary data to see it")
    flat: list[Any] = array.ravel().tolist()
    return flat


def _nested(flat: list[Any], shape: tuple[int, ...]) -> list[Any]:
    for size in reversed(shape[1:]):
        flat = [flat[at : at + size] for at in range(0, len(flat), size)] if size else []
    return flat


def _by_name(inputs: list[Input], signature: Signature) -> dict[str, Input]:
    given = {one.name: one for one in inputs}
    wanted = {port.name for port in signature.inputs}
    if given.keys() != wanted or len(given) != len(inputs):
        raise unfit(
            f"the inputs are {_list(one.name for one in inputs)}, and the model takes {_list(wanted)}",
            hint="send each input once, by its name",
        )
    return given


def _size(one: Input, size: Any) -> int:
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise malformed(f"`{BINARY}` of `{one.name}` is `{size}`, and must be a number of bytes")
    if memoryview(one.data).nbytes:
        raise malformed(f"`{one.name}` has both `data` and `{BINARY}`")
    return size


def _starts(inputs: list[Input], cut: int) -> dict[str, int]:
    starts, at = {}, cut
    for one in inputs:
        starts[one.name] = at
        at += one.parameters.get(BINARY) or 0
    return starts


def _shape(one: Input, port: Port, most_rows: int) -> tuple[int, ...]:
    datatype = DATATYPES[port.dtype]
    if one.datatype != datatype:
        raise unfit(f"`{port.name}` is sent as `{one.datatype[:20]}`, and the model takes `{datatype}`")
    shape = tuple(one.shape)
    _fits(shape, port, most_rows)
    return shape


def _fits(shape: tuple[int, ...], port: Port, most_rows: int) -> None:
    expected = ["rows", *(size if size is not None else "any" for size in port.shape)]
    says = f"`{port.name}` has the shape {list(shape[: 2 * DEEPEST])}, and the model takes {_shape_said(expected)}"
    if len(shape) != len(expected) or any(size < 1 for size in shape):
        raise unfit(says)
    if any(want is not None and have != want for have, want in zip(shape[1:], port.shape, strict=True)):
        raise unfit(says)
    if shape[0] > most_rows:
        raise unfit(f"the request has {shape[0]} rows", hint=f"send at most {most_rows} at a time")


def _from_json(data: msgspec.Raw, port: Port, shape: tuple[int, ...], *, name: str) -> NDArray[Any]:
    if not memoryview(data).nbytes:
        raise malformed(f"`{name}` has no `data`")
    depth = _depth(data)
    if depth not in {0, 1, len(shape)}:
        raise unfit(f"the data of `{name}` are nested {depth} deep", hint=f"send them flat, or {len(shape)} deep")
    array = _array(_decoded(data, port, depth, name=name), port)
    if depth == 1:
        if array.size != math.prod(shape):
            raise unfit(f"`{name}` has {array.size} numbers, and its shape {list(shape)} asks for {math.prod(shape)}")
        return array.reshape(shape)
    if array.shape != shape:
        raise unfit(f"the data of `{name}` are nested as {list(array.shape)}, and its shape is {list(shape)}")
    return array


def _from_bytes(raw: memoryview, port: Port, shape: tuple[int, ...]) -> NDArray[Any]:
    dtype = np.dtype(port.dtype)
    wanted = math.prod(shape) * dtype.itemsize
    if len(raw) != wanted:
        raise unfit(f"`{port.name}` has {len(raw)} bytes, and its shape {list(shape)} asks for {wanted}")
    array = np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
    if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise unfit(f"`{port.name}` holds bytes that are neither 0 nor 1")
    return array


def _depth(data: msgspec.Raw) -> int:
    depth = 0
    for byte in bytes(memoryview(data)[: DEEPEST + 64]):  # with room for white space
        if byte == ord("["):
            depth += 1
        elif byte not in b" \t\r\n":
            break
    return depth


@cache
def _decoder(kind: str, depth: int) -> msgspec.json.Decoder[Any]:
    of: Any = {"f": float, "i": int, "u": int, "b": bool}[kind]
    for _ in range(depth):
        of = list[of]
    return msgspec.json.Decoder(of)


def _decoded(raw: msgspec.Raw, port: Port, depth: int, *, name: str) -> Any:
    if not 1 <= depth <= DEEPEST:
        raise unfit(f"the data of `{name}` are no list of numbers")
    try:
        return _decoder(np.dtype(port.dtype).kind, depth).decode(raw)
    except msgspec.ValidationError as error:
        raise unfit(f"the data of `{name}` are no {DATATYPES[port.dtype]}: {_first(error)}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(f"the data of `{name}` are no JSON: {_first(error)}") from None


def _array(nested: Any, port: Port) -> NDArray[Any]:
    try:
        with np.errstate(over="ignore"):  # what becomes infinite is refused as such
            return np.array(nested, dtype=port.dtype)
    except OverflowError:
        raise unfit(f"`{port.name}` holds a number that {DATATYPES[port.dtype]} cannot") from None
    except ValueError:
        raise unfit(f"the rows of `{port.name}` have different lengths") from None


def _finite(array: NDArray[Any], port: Port) -> NDArray[Any]:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise unfit(f"`{port.name}` holds a number that is not finite as {DATATYPES[port.dtype]}")
    return array


def _same_rows(arrays: list[NDArray[Any]], signature: Signature) -> None:
    rows = {len(array) for array in arrays}
    if len(rows) > 1:
        told = ", ".join(f"`{port.name}` {len(one)}" for port, one in zip(signature.inputs, arrays, strict=True))
        raise unfit(f"the inputs have different numbers of rows: {told}")


def _timeout(parameters: Parameters) -> float | None:
    """The protocol's `timeout`, in microseconds as Triton has it."""
    given = parameters.get("timeout")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise unfit(f"the parameter `timeout` is `{given}`", hint="it is a whole number of microseconds, at least 1")
    return given / 1e6


def _opens_with(body: bytes, mark: bytes) -> bool:
    return body.lstrip(b" \t\r\n")[:1] == mark


def _shape_said(parts: list[Any]) -> str:
    return "[" + ", ".join(map(str, parts)) + "]"


def _list(names: Any) -> str:
    found = sorted(names)
    return ", ".join(f"`{name[:40]}`" for name in found[:8]) or "none"


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


__all__ = [
    "Asked",
    "Problem",
    "Written",
    "most_bytes",
    "read_inference",
    "read_plain",
    "write_inference",
    "write_plain",
]
