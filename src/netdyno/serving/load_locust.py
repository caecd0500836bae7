"""Writes the same load as a locust file, for those who have locust."""

import json
from collections.abc import Sequence
from pathlib import Path

from netdyno.serving.offered import Request, Where

FILE = '''\
"""Load for {url}, written by `netdyno load`. Start it:

    locust -f {name} --headless --host {host} --users {users} --run-time 1m

Each user asks {per_user:g} times a second, {rate:g} together, and waits for its answer before it asks again. A service that stands still
so stops the arrivals too, and its latencies look better than those that `netdyno load` counts from when a request was due.
"""

import itertools
import json
from pathlib import Path

from locust import HttpUser, constant_throughput, task

BODIES = [json.loads(line) for line in Path(__file__).with_suffix(".jsonl").read_text().splitlines()]
TURNS = itertools.cycle(BODIES)


class Client(HttpUser):
    """Sends the bodies in turn; an answer that is not 2xx is a failure."""

    wait_time = constant_throughput({per_user:g})

    @task
    def ask(self):
        turn = next(TURNS)
        with self.client.request(
            turn["method"], turn["path"], data=turn["body"].encode("latin-1"),
            headers={{"Content-Type": turn["kind"]}}, name="ask", catch_response=True, timeout={timeout:g},
        ) as answer:
            if not 200 <= answer.status_code < 300:
                answer.failure(f"HTTP {{answer.status_code}}")
'''


def write(file: Path, where: Where, requests: Sequence[Request], *, rate: float, timeout_s: float) -> tuple[Path, ...]:
    """Write the locust file, and its bodies beside it, a line each; gives the paths."""
    # One user cannot ask again before it is answered: enough of them that each waits a second for its next turn.
    users = max(1, round(rate))
    url = f"http{'s' if where.tls else ''}://{where.host}:{where.port}"
    file.write_text(
        FILE.format(
            url=where.url, host=url, name=file.name, users=users, rate=rate, per_user=rate / users, timeout=timeout_s
        )
    )
    bodies = file.with_suffix(".jsonl")
    bodies.write_text("".join(json.dumps(_taken_apart(request.wire)) + "\n" for request in requests))
    return file, bodies


def _taken_apart(wire: bytes) -> dict[str, str]:
    head, _, body = wire.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, path, _ = first.split(" ")
    headers = dict(line.split(": ", 1) for line in lines)
    return {"method": method, "path": path, "kind": headers.get("Content-Type", ""), "body": body.decode("latin-1")}
