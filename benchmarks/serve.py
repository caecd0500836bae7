"""A package behind our server and behind others: what each carries under a promise, what a request costs, what one client sees.

    python benchmarks/serve.py PACKAGE… --promise 15 [--rivals INTERPRETER] [--triton INTERPRETER]
    python benchmarks/serve.py PACKAGE --soak 600

Servers run on core 0, the generator on core 1. All are started; who is not asked is stopped (SIGSTOP), and the sides take turns in random
order. Load is open-loop with latency counted from when a request was due; an answer that is no 2xx, comes late or is wrong is a failure in
every figure, and counts as an infinite latency. A rate is held when P99 keeps the promise, failures included.
"""

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from http.client import HTTPResponse
from pathlib import Path

import msgspec
import numpy as np
import psutil

import serve_rivals
from netdyno.records.measured import Interval
from netdyno.serving.engines import _base as engines
from netdyno.serving.jitter import jitter
from netdyno.serving.offered import Request, Where, exchange, offered, wire
from netdyno.serving.tensors import DATATYPES
from netdyno.shipping.package import opened
from netdyno.stats.paired import hodges_lehmann

SOURCE = Path(__file__).parent.parent / "src"
ROWS = 32  # different rows that clients send in turn
SERVER_CORE, CLIENT_CORE = 0, 1


def go_first():
    """Before everything else on this core: with neighbours, a P99 is theirs otherwise. Children inherit it."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


class Side:
    """One server around one package: started, stopped while others are asked, weighed."""

    def __init__(self, name, package, port, *, folder, words, path, body, answer, ready, environment=None):
        self.name, self.package, self.port = name, package, port
        self.path, self.body, self.answer, self.ready = path, body, answer, ready
        self.said = open(folder / f"{name.replace('/', '-')}.log", "wb")  # noqa: SIM115
        env = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", **(environment or {})}
        self.began = time.monotonic()
        self.child = subprocess.Popen(
            ("taskset", "-c", str(SERVER_CORE), *words),
            cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said, start_new_session=True,
        )  # fmt: skip
        self.where = Where("127.0.0.1", port, path, address="127.0.0.1")
        self.ready_s = None

    def until_ready(self, seconds=240):
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.child.poll() is None:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{self.ready}", timeout=2) as found:
                    if found.status == 200:
                        self.ready_s = time.monotonic() - self.began
                        return True
            time.sleep(0.2)
        return False

    def family(self):
        """Its processes; Ray starts some in sessions of their own, but all are below it."""
        try:
            top = psutil.Process(self.child.pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def tell(self, number):
        for one in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(number)

    @contextlib.contextmanager
    def awake(self):
        self.tell(signal.SIGCONT)
        # What slept may need a moment to believe that no time has passed: Triton's watchdog, for one.
        until = time.monotonic() + 3.0
        while time.monotonic() < until:
            with contextlib.suppress(Exception):
                if exchange(self.where, [self.first], timeout_s=2.0)[0].status == 200:
                    break
            time.sleep(0.05)
        try:
            yield
        finally:
            self.tell(signal.SIGSTOP)

    def cpu(self):
        spent = 0.0
        for one in self.family():
            with contextlib.suppress(psutil.Error):
                times = one.cpu_times()
                spent += times.user + times.system
        return spent

    def memory(self):
        total = 0
        for one in self.family():
            with contextlib.suppress(psutil.Error):
                total += one.memory_full_info().pss
        return total

    def end(self):
        family = self.family()
        self.tell(signal.SIGCONT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGTERM)
        _, alive = psutil.wait_procs(family, timeout=8)
        for one in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.said.close()

    def requests(self, rows, answers, allowed):
        """Requests with a check of each answer against the model's own answer to that row alone."""
        made = []
        for at in range(len(rows[0])):
            wanted = answers[at]

            def right(body, wanted=wanted):
                try:
                    got = np.asarray(self.answer(body), dtype=np.float64).ravel()
                except Exception:
                    return False
                return got.shape == wanted.shape and bool(np.all(np.abs(got - wanted) <= allowed))

            body = self.body(tuple(column[at] for column in rows))
            made.append(Request(wire(self.where, body=body), right))
        self.first = made[0].wire
        return made


def v2_body(package):
    ports = package.manifest.signature.inputs

    def body(row):
        return msgspec.json.encode({"inputs": [
            {"name": port.name, "shape": [1, *array.shape], "datatype": DATATYPES[port.dtype], "data": array.ravel().tolist()}
            for port, array in zip(ports, row, strict=True)
        ]})  # fmt: skip

    return body


def v2_answer(body):
    return json.loads(body)["outputs"][0]["data"]


def named_body(package):
    ports = package.manifest.signature.inputs
    return lambda row: msgspec.json.encode(
        {"inputs": {port.name: array.tolist() for port, array in zip(ports, row, strict=True)}}
    )


def first_output(body):
    return next(iter(json.loads(body)["outputs"].values()))


def sides(package, options, folder):
    """Every server that can run here; who cannot is named with the reason."""
    port = options.port
    model = package.manifest.name
    chosen = options.only.split(",") if options.only else None

    def wants(name):
        return chosen is None or name in chosen

    def own(name, *extra):
        words = (sys.executable, "-m", "netdyno", "serve", str(package.folder), "--port", str(port),
                 "--slo", f"p99<={options.promise:g}ms", "--progress", "none", *extra)  # fmt: skip
        return Side(name, package, port, folder=folder, words=words, path=f"/v2/models/{model}/infer",
                    body=v2_body(package), answer=v2_answer, ready="/v2/health/ready")  # fmt: skip

    def script(name, python, text, ready="/health"):
        path = folder / f"rival_{name}.py"
        path.write_text(text)
        return Side(name, package, port, folder=folder, words=(python, str(path)), path="/predict",
                    body=named_body(package), answer=first_output, ready=ready)  # fmt: skip

    def engine(name, id_, python, *, largest, delay_s, path, body, answer):
        found = engines.named(id_)
        below = folder / name.replace(" ", "-")
        engines.write(found, package, below, engines.Wanted(port=port, largest=largest, delay_s=delay_s))
        return Side(name, package, port, folder=below, words=(python, found.script), path=path, body=body,
                    answer=answer, ready=found.ready, environment=found.environment(python))  # fmt: skip

    largest, delay_s = options.largest, options.window / 1e3
    facts = {
        "folder": str(package.folder.resolve()),
        "largest": largest,
        "delay_s": delay_s,
        "latency_ms": int(options.promise),
    }
    here, rivals = sys.executable, options.rivals
    makers = {
        "netdyno": lambda: own("netdyno"),
        "fastapi": lambda: script("fastapi", here, serve_rivals.PLAIN.format(port=port, **facts)),
        "fastapi+window": lambda: script("fastapi+window", here, serve_rivals.WINDOW.format(port=port, **facts)),
        "litserve": lambda: engine(
            "litserve", "litserve", here, largest=1, delay_s=0.0, path="/predict", body=named_body(package), answer=first_output
        ),
        "litserve+window": lambda: engine(
            "litserve+window", "litserve", here, largest=largest, delay_s=delay_s, path="/predict", body=named_body(package),
            answer=first_output,
        ),
    }  # fmt: skip
    if rivals:
        makers["ray"] = lambda: engine(
            "ray",
            "ray-serve",
            rivals,
            largest=largest,
            delay_s=delay_s,
            path="/",
            body=named_body(package),
            answer=first_output,
        )
        makers["bentoml"] = lambda: bento(package, options, folder, port=port, facts=facts)
    if options.triton:
        makers["pytriton"] = lambda: engine(
            "pytriton", "pytriton", options.triton, largest=largest, delay_s=0.0, path=f"/v2/models/{model}/infer",
            body=v2_body(package), answer=v2_answer,
        )  # fmt: skip
    for name, make in makers.items():
        if wants(name):
            port += 10
            yield make()


def bento(package, options, folder, *, port, facts):
    (folder / "bento_model.py").write_text(serve_rivals.BENTO.format(**facts))
    words = (options.rivals, "-m", "bentoml", "serve", "bento_model:Model", "--port", str(port), "--host", "127.0.0.1")
    return Side("bentoml", package, port, folder=folder, words=words, path="/predict",
                body=lambda row: msgspec.json.encode({"rows": [row[0].tolist()]}), answer=lambda body: json.loads(body)[0],
                ready="/readyz", environment={"BENTOML_DO_NOT_TRACK": "True"})  # fmt: skip


def closed(side, requests, seconds):
    """One client that asks again once it is answered: seconds of each, failures, CPU seconds of the server."""
    taken, failures, at = [], 0, 0
    with side.awake():
        exchange(side.where, [request.wire for request in requests[:8]])
        before, began = side.cpu(), time.perf_counter()
        with socket.create_connection(("127.0.0.1", side.port)) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while time.perf_counter() - began < seconds:
                request = requests[at % len(requests)]
                asked = time.perf_counter()
                client.sendall(request.wire)
                status, content = answered(client)
                taken.append(time.perf_counter() - asked)
                failures += not (status // 100 == 2 and request.right(content))
                at += 1
        return taken, failures, (side.cpu() - before) / max(1, at)


def answered(client):
    """Status and body of an answer; the connection stays."""
    answer = HTTPResponse(client)
    answer.begin()
    return answer.status, answer.read()


def alone(package, rows, seconds):
    """CPU seconds of the model alone, a row at a time, in a process on the servers' core."""
    code = (
        "import sys, time, numpy as np\n"
        "from netdyno.shipping.package import opened\n"
        f"package = opened({str(package.folder.resolve())!r}); call = package.call(); rows = package.example()[0]\n"
        "one = tuple(column[:1] for column in rows)\n"
        "[call(one) for _ in range(20)]\n"
        f"until = time.perf_counter() + {seconds}; n = 0; cpu = time.process_time()\n"
        "while time.perf_counter() < until: call(one); n += 1\n"
        "print((time.process_time() - cpu) / n)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    words = ("taskset", "-c", str(SERVER_CORE), sys.executable, "-c", code)  # in our own session, so with its priority
    return float(subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout)


def p99(load):
    """P99 with a failure as an infinite latency."""
    samples = sorted(load.samples)
    failed = load.failed
    good = (
        samples[: len(samples) - failed] if failed else samples
    )  # failures stand there with the time-out, the longest
    whole = sorted(good) + [math.inf] * failed
    return whole[min(len(whole) - 1, math.ceil(0.99 * len(whole)) - 1)] if whole else math.inf


def compared(package, options, folder):
    """All sides in turns; prints as it goes, gives the table."""
    print(f"\n## {package.manifest.name}: {package.manifest.runtime.id} {package.manifest.precision}, "
          f"sizes {package.manifest.running.batches}, promise P99 <= {options.promise:g} ms")  # fmt: skip
    call = package.call()
    example = package.example()[0]
    rows = tuple(column[np.arange(ROWS) % len(column)] for column in example)
    answers = [
        np.asarray(call(tuple(column[at : at + 1] for column in rows))[0], np.float64).ravel() for at in range(ROWS)
    ]
    allowed = package.manifest.allowed * (float(np.std(np.stack(answers))) or 1.0)
    there = []
    for side in sides(package, options, folder):
        if side.until_ready():
            side.tell(signal.SIGSTOP)
            there.append(side)
            print(
                f"{side.name}: ready after {side.ready_s:.1f} s, {side.memory() / 1e6:.0f} MB in {len(side.family())} processes",
                flush=True,
            )
        else:
            side.end()
            words = (folder / f"{side.name}.log").read_bytes() if (folder / f"{side.name}.log").exists() else b""
            print(
                f"{side.name}: did not become ready: {words.decode(errors='replace').strip().splitlines()[-1:]}",
                flush=True,
            )
    try:
        return measured(there, package, options, rows=rows, answers=answers, allowed=allowed)
    finally:
        for side in there:
            side.end()


def measured(there, package, options, *, rows, answers, allowed):
    chance = random.Random(options.seed)
    made = {side.name: side.requests(rows, answers, allowed) for side in there}
    turns = {side.name: [] for side in there}
    model = []
    for _ in range(options.rounds):
        model.append(alone(package, rows, min(2.0, options.closed)))
        for side in chance.sample(there, len(there)):
            turns[side.name].append(closed(side, made[side.name], options.closed))
    base = statistics.median(model)
    print(
        f"\none client after the other (c=1), {options.rounds} turns of {options.closed:g} s; the model alone takes {base * 1e3:.2f} ms of CPU"
    )
    print(
        f"{'server':<16} {'QPS':>7} {'P50 ms':>7} {'P99 ms':>7} {'CPU ms/request':>15} {'over the model':>15} {'failed':>7} {'P99/P50':>22}  of netdyno's QPS"
    )
    rates = {name: [len(taken) / sum(taken) for taken, _, _ in found] for name, found in turns.items()}
    for side in there:
        found = turns[side.name]
        taken = sorted(second for part, _, _ in found for second in part)
        cpu = statistics.median(cost for _, _, cost in found)
        beside = ""
        if side.name != "netdyno" and "netdyno" in rates:
            beside = told(ratio(rates[side.name], rates["netdyno"]))
        print(f"{side.name:<16} {statistics.median(rates[side.name]):>7.0f} {quantile(taken, 0.5) * 1e3:>7.2f} "
              f"{quantile(taken, 0.99) * 1e3:>7.2f} {cpu * 1e3:>15.2f} {(cpu - base) * 1e3:>15.2f} "
              f"{sum(failed for _, failed, _ in found):>7} {unsteady(found):>22}  {beside}", flush=True)  # fmt: skip
    ladder = [float(part) for part in options.rates.split(",")] if options.rates else None
    if ladder is None:
        full = 1.0 / base
        ladder = [round(full * share, 1) for share in (0.3, 0.5, 0.65, 0.8, 0.95, 1.1, 1.3, 1.6, 2.0, 2.5)]
    print(f"\nopen loop, Poisson arrivals, {options.rounds} turns of {options.seconds:g} s a rate; P99 ms (failed %)")
    print(f"{'rate /s':>8}  " + "  ".join(f"{side.name:>16}" for side in there))
    held = {side.name: [0.0] * options.rounds for side in there}
    carried = {side.name: {} for side in there}
    out = set()
    for rate in ladder:
        tails = {side.name: [] for side in there}
        costs = {side.name: [] for side in there}
        for turn in range(options.rounds):
            for side in chance.sample(there, len(there)):
                if side.name in out:
                    continue
                with side.awake():
                    load = offered(side.where, made[side.name], rate=rate, seconds=options.seconds, connections=128,
                                   timeout_s=2.0, seed=turn)  # fmt: skip
                    time.sleep(0.1)
                tails[side.name].append((p99(load), load.failed / max(1, load.due), load.failures))
                if load.server_cpu_s is not None:
                    costs[side.name].append(load.server_cpu_s)
                if p99(load) <= options.promise / 1e3:
                    held[side.name][turn] = rate
        line = []
        for side in there:
            found = tails[side.name]
            if not found:
                line.append(f"{'-':>16}")
                continue
            worst = statistics.median(tail for tail, _, _ in found)
            share = statistics.mean(part for _, part, _ in found)
            carried[side.name][rate] = worst
            said = f"{worst * 1e3:.1f}" if math.isfinite(worst) else "inf"
            line.append(f"{said + f' ({share:.1%})':>16}")
            # Two rungs above its last is enough to see that it does not come back.
            if worst > 4 * options.promise / 1e3:
                out.add(side.name)
        print(f"{rate:>8.1f}  " + "  ".join(line), flush=True)
        if len(out) == len(there):
            break
    print(f"\nhighest rate of the ladder with P99 <= {options.promise:g} ms (each turn)")
    for side in there:
        print(f"{side.name:<16} {statistics.median(held[side.name]):>8.1f}   {held[side.name]}")
    return held


def ratio(mine, theirs):
    logs = [math.log(a / b) for a, b in zip(mine, theirs, strict=True)]
    return hodges_lehmann(logs, 0.95)


def unsteady(found):
    try:
        ratio_ = jitter([second for part, _, _ in found for second in part])
    except ValueError:
        return "too few"
    return f"{ratio_.middle:.2f} ({ratio_.low:.2f} to {ratio_.high:.2f})"


def told(found: Interval):
    low, high = math.exp(found.low), math.exp(found.high)
    return f"{math.exp(found.middle):.2f} ({low:.2f} to {high:.2f})" if high < 50 else f"{math.exp(found.middle):.2f}"


def quantile(ordered, share):
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--promise", type=float, default=15.0, help="milliseconds at P99")
    parser.add_argument("--rivals", help="interpreter that has ray[serve] and bentoml")
    parser.add_argument("--triton", help="interpreter that has nvidia-pytriton")
    parser.add_argument("--only", help="names of servers, with commas")
    parser.add_argument(
        "--rates", help="requests per second, with commas; otherwise shares of what the model alone does"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--closed", type=float, default=3.0)
    parser.add_argument("--largest", type=int, default=8)
    parser.add_argument("--window", type=float, default=2.0, help="milliseconds that servers with a window wait")
    parser.add_argument("--port", type=int, default=18000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", action="store_true", help="before all neighbours on both cores (needs the right to)")
    options = parser.parse_args()
    if options.first:
        go_first()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {CLIENT_CORE})
    print(
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {'before' if options.first else 'among'} neighbours"
    )
    folder = Path(tempfile.mkdtemp(prefix="netdyno-serve-bench-"))
    try:
        for at, name in enumerate(options.packages):
            below = folder / str(at)
            below.mkdir()
            compared(opened(name), options, below)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
