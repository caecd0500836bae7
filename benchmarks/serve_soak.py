"""Ten minutes of load with malformed requests mixed in: `python benchmarks/serve_soak.py PACKAGE --seconds 600`.

Counted: answers that differ from the model's own answer to that row alone, statuses that a malformed request should not have (anything but
4xx), connections that were dropped without an answer, restarts, and how the memory of the service goes with time.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from http.client import HTTPException
from pathlib import Path

import numpy as np
import psutil

from netdyno.serving.offered import offered
from netdyno.shipping.package import opened
from serve import CLIENT_CORE, ROWS, Side, answered, go_first, v2_answer, v2_body

MALFORMED_RATE = 20.0  # per second
PIECE_S = 15.0


def http(path, body=b"", *, method="POST", headers=(("content-type", "application/json"),), length=None):
    lines = [
        f"{method} {path} HTTP/1.1",
        "host: localhost",
        f"content-length: {len(body) if length is None else length}",
    ]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers)]).encode() + b"\r\n\r\n" + body


def specimens(good, path):
    """Wrong requests, each with the statuses that it may be answered with. None: whatever, the client hangs up."""
    whole = json.loads(good)
    one = whole["inputs"][0]

    def changed(**fields):
        return json.dumps({"inputs": [{**one, **fields}, *whole["inputs"][1:]]}).encode()

    # A token that no vocabulary has may be 422, or be answered by runtimes that read it as another: both are answers.
    yield "not json", http(path, b"{"), {400}
    yield "empty", http(path), {400}
    yield "bytes", http(path, bytes(range(256))), {400}
    yield "deep", http(path, b'{"inputs":' + b"[" * 5000), {400, 413}
    yield "nan", http(path, good.replace(b'"data":[', b'"data":[NaN,', 1)), {400}
    yield "huge number", http(path, good.replace(b'"data":[', b'"data":[1e999,', 1)), {400, 422}
    yield "cut", http(path, good[: len(good) // 2]), {400}
    yield "shape", http(path, changed(shape=[1, 7])), {422}
    yield "rows", http(path, changed(shape=[10**9, *one["shape"][1:]])), {422}
    yield "negative", http(path, changed(shape=[-1, *one["shape"][1:]])), {422}
    yield "type", http(path, changed(datatype="BYTES")), {422}
    yield "strings", http(path, changed(data=["a"] * 3)), {422}
    yield "few", http(path, changed(data=one["data"][:-1])), {422}
    yield "name", http(path, changed(name="other")), {422}
    yield "twice", http(path, json.dumps({"inputs": [one, one]}).encode()), {422}
    yield "none", http(path, b'{"inputs": []}'), {422}
    yield "binary", http(path, changed(data=None, parameters={"binary_data_size": 8})), {400, 422}
    yield "large", http(path, length=10**9), {413}
    yield "kind", http(path, good, headers=(("content-type", "text/plain"),)), {415}
    yield "gzip", http(path, good, headers=(("content-encoding", "gzip"),)), {415}
    yield "deadline", http(path, good, headers=(("x-deadline-ms", "-4"),)), {422}
    yield "too soon", http(path, good, headers=(("x-deadline-ms", "0.001"),)), {504, 429}
    yield "path", http("/v2/models/nobody/infer", good), {404}
    yield "method", http(path, method="DELETE"), {405}
    yield "no http", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", {400}
    yield "hangs up", http(path, good[: len(good) // 2], length=len(good)), None
    yield "hangs up at once", b"", None


def malformed(port, good, path, seconds):
    """Send wrong requests for so long; prints what came back, as JSON."""
    chance = random.Random(0)
    wrong, statuses, dropped = [], Counter(), 0
    cases = list(specimens(good, path))
    until, sent = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        name, wire, allowed = chance.choice(cases)
        sent += 1
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                client.sendall(wire)
                if allowed is None:
                    continue
                status, _ = answered(client)
        except (OSError, HTTPException, ValueError) as error:
            dropped += 1
            wrong.append(f"{name}: {type(error).__name__} {error}")
            continue
        statuses[status] += 1
        if status not in allowed:
            wrong.append(f"{name}: {status}")
        time.sleep(chance.expovariate(MALFORMED_RATE))
    print(
        json.dumps(
            {"sent": sent, "statuses": statuses, "dropped": dropped, "wrong": wrong[:20], "wrong_count": len(wrong)}
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--port", type=int, default=18900)
    parser.add_argument("--first", action="store_true", help="before all neighbours (needs the right to)")
    parser.add_argument("--malformed", help=argparse.SUPPRESS)
    options = parser.parse_args()
    package = opened(options.package)
    path = f"/v2/models/{package.manifest.name}/infer"
    rows = tuple(column[np.arange(ROWS) % len(column)] for column in package.example()[0])
    body = v2_body(package)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {CLIENT_CORE})
    if options.malformed:
        malformed(options.port, body(tuple(column[0] for column in rows)), path, options.seconds)
        return
    if options.first:
        go_first()
    call = package.call()
    answers = [
        np.asarray(call(tuple(column[at : at + 1] for column in rows))[0], np.float64).ravel() for at in range(ROWS)
    ]
    allowed = package.manifest.allowed * (float(np.std(np.stack(answers))) or 1.0)
    with tempfile.TemporaryDirectory() as folder:
        words = (sys.executable, "-m", "netdyno", "serve", str(package.folder.resolve()), "--port", str(options.port),
                 "--progress", "none", "--log", "problems")  # fmt: skip
        side = Side("netdyno", package, options.port, folder=Path(folder), words=words, path=path, body=body,
                    answer=v2_answer, ready="/v2/health/ready")  # fmt: skip
        try:
            soak(side, side.requests(rows, answers, allowed), options)
        finally:
            side.end()


def soak(side, requests, options):
    assert side.until_ready(), "it did not become ready"
    server = psutil.Process(side.child.pid)
    words = (sys.executable, __file__, options.package, "--malformed", "yes", "--port", str(options.port),
             "--seconds", str(options.seconds))  # fmt: skip
    beside = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    began = time.monotonic()
    memory, failures, answered_right = [], Counter(), 0
    while time.monotonic() - began < options.seconds:
        load = offered(side.where, requests, rate=options.rate, seconds=min(PIECE_S, options.seconds), connections=64,
                       timeout_s=5.0, seed=len(memory))  # fmt: skip
        failures.update(load.failures)
        answered_right += load.due - load.failed
        memory.append((time.monotonic() - began, server.memory_info().rss / 1e6))
        print(f"{memory[-1][0]:6.0f} s  {memory[-1][1]:7.1f} MB  {dict(failures)}", flush=True)
    out, _ = beside.communicate(timeout=60)
    found = json.loads(out)
    alive = server.is_running() and server.status() != psutil.STATUS_ZOMBIE
    side.child.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        side.child.wait(30)
    late = memory[len(memory) // 5 :]  # the first fifth fills pools and caches
    slope, low, high = trend(late)
    print(
        f"\n{options.seconds:.0f} s at {options.rate:g} requests a second, and {found['sent']} malformed ones beside them"
    )
    print(f"answers: {answered_right} right, {sum(failures.values())} failed {dict(failures)}")
    print(
        f"malformed: answered with {found['statuses']}, {found['wrong_count']} otherwise than they should {found['wrong']}"
    )
    print(f"the service {'lived' if alive else 'DIED'} throughout, and ended with status {side.child.returncode}")
    print(
        f"memory: {late[0][1]:.1f} MB at first, {late[-1][1]:.1f} MB at last, {slope:+.2f} MB an hour (95 %: {low:+.2f} to {high:+.2f})"
    )


def trend(points):
    """MB an hour with its range, by least squares."""
    times, values = np.array([at for at, _ in points]) / 3600, np.array([value for _, value in points])
    if len(points) < 4:
        return 0.0, float("-inf"), float("inf")
    (slope, _), covariance = np.polyfit(times, values, 1, cov=True)
    return float(slope), float(slope - 1.96 * covariance[0, 0] ** 0.5), float(slope + 1.96 * covariance[0, 0] ** 0.5)


if __name__ == "__main__":
    main()
