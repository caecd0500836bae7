"""How soon `netdyno ui` opens on a store of many long runs.

    python benchmarks/ui_open.py [--runs 100] [--points 100000] [--turns 7]

Writes such a store into a temporary folder: each run has a loss of so many points, twelve shorter series, alerts,
checklists and histograms. Then it starts the server and takes the time of the first list and of later ones, of the first
points of a chart, and of the page in headless Chromium, each time with an empty cache: until the list stands; from a click in
the list until the first chart is drawn; and until it is drawn where somebody opens the address of two runs at once, once
with nothing in the browser's cache (then most of the time is the chart library's own start) and once again after that.
Exit status 1 when a median is above a second, that of an empty cache left out. Without Chromium or playwright the page is
left out aloud.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from netdyno.store.journal import Journal, new_info

MOST_S = 1.0
LISTED, DRAWN = ".runs tbody tr", ".chart .scatterlayer path.js-line"
COLD = "page: address of two runs, no cache"
FURTHER = [f"gradient_norm/layers.{at}" for at in range(8)] + [
    "learning_rate/0",
    "phase/forward",
    "phase/backward",
    "memory/rss",
]


def write(store: Path, runs: int, points: int) -> list[str]:
    """A store of many long runs; their ids."""
    chance = np.random.default_rng(0)
    return [_run(store, number, points, chance) for number in range(runs)]


def _run(store: Path, number: int, points: int, chance: np.random.Generator) -> str:
    info = new_info(
        f"run {number:03}", tags={"stage": ("optim", "arch", "data")[number % 3], "sweep": str(number // 10)}
    )
    journal = Journal.create(store, info)
    _series(journal, "loss", points, chance)
    for name in FURTHER:
        _series(journal, name.replace("/", "%2F"), points // 50, chance)
    for epoch in range(1, 51):
        journal.event(
            "checklist",
            epoch,
            epoch=epoch,
            items=[{"item": "loss-finite", "state": "pass", "value": 1.0, "limit": 1.0}] * 8,
        )
        counts, edges = np.histogram(chance.standard_normal(500), bins=40)
        journal.event(
            "histogram", epoch, of="output", at=epoch, edges=edges.tolist(), counts=counts.tolist(), not_finite=0
        )
    journal.event(
        "alert", 10, alert={"cause": "plateau", "severity": "warning", "says": "the loss stands still since update 10"}
    )
    journal.close("ended", points, updates=points)
    return info.id


def _series(journal: Journal, name: str, points: int, chance: np.random.Generator) -> None:
    at = np.arange(1, points + 1, dtype="<f8")
    rows = np.stack([at, at * 0.01, np.exp(-4 * at / points) + 0.05 * chance.standard_normal(points)], axis=1)
    (journal.folder / "series" / f"{name}.f64").write_bytes(rows.astype("<f8").tobytes())


@contextlib.contextmanager
def served(store: Path) -> Iterator[str]:
    """`netdyno ui` as a process of its own; its address."""
    words = [sys.executable, "-m", "netdyno", "ui", "--store", str(store)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            assert running.stdout is not None
            yield running.stdout.readline().strip()
        finally:
            running.terminate()


def asked(url: str) -> float:
    """How long one answer takes, in seconds."""
    began = time.perf_counter()
    with urllib.request.urlopen(url) as answer:
        answer.read()
    return time.perf_counter() - began


def in_browser(address: str, ids: list[str], turns: int) -> Iterator[tuple[str, list[float]]]:
    """How long a person waits for the list, and for the first chart of two runs; none without a browser."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None or importlib.util.find_spec("playwright") is None:
        print("the page is left out: it needs Chromium and `pip install playwright`", file=sys.stderr)
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-background-networking"]
        )
        visits = [_visited(chromium, address, ids) for _ in range(turns)]
        chromium.close()
    for at, name in enumerate(
        ("page: the list stands", "page: from a click to a run's chart", COLD, "page: that address once more")
    ):
        yield name, [visit[at] for visit in visits]


def _visited(chromium: Any, address: str, ids: list[str]) -> tuple[float, float, float, float]:
    """The list, a click in it, and in a browser of its own the address of two runs, twice; seconds each."""
    with _page(chromium) as page:
        listed = _until(LISTED, page, lambda: page.goto(address, wait_until="commit"))
        while not page.evaluate("window.Plotly !== undefined"):  # a person reads the list meanwhile
            page.wait_for_timeout(50)
        clicked = _until(DRAWN, page, lambda: page.click(".runs tbody tr:nth-child(5) a"))
    two = f"{address}#/runs/{ids[0]},{ids[1]}"
    with _page(chromium) as page:
        first = _until(DRAWN, page, lambda: page.goto(two, wait_until="commit"))
        page.goto("about:blank")
        again = _until(DRAWN, page, lambda: page.goto(two, wait_until="commit"))
    return listed, clicked, first, again


@contextlib.contextmanager
def _page(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    yield context.new_page()
    context.close()


def _until(mark: str, page: Any, act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    page.wait_for_selector(mark, state="attached")
    return time.perf_counter() - began


def measured(store: Path, ids: list[str], turns: int) -> dict[str, list[float]]:
    """Seconds of everything, by name."""
    question = {"ask": json.dumps([[ids[0], "loss", 0], [ids[1], "loss", 0]])}
    smooth = {**question, "smooth": 1000}
    found: dict[str, list[float]] = {"the first list of a server": [], "later lists": []}
    for _ in range(turns):
        with served(store) as address:
            found["the first list of a server"].append(asked(f"{address}api/runs"))
    with served(store) as address:
        asked(f"{address}api/runs")
        ways: dict[str, Callable[[], str]] = {
            "later lists": lambda: f"{address}api/runs",
            "points of a chart of two runs": lambda: f"{address}api/points?{urllib.parse.urlencode(question)}",
            "the same with a mean of 1000": lambda: f"{address}api/points?{urllib.parse.urlencode(smooth)}",
        }
        for name, way in ways.items():
            found[name] = [asked(way()) for _ in range(turns)]
        found |= dict(in_browser(address, ids, turns))
    return found


def main() -> int:
    """Print the table; the answer is the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runs", 100), ("points", 100_000), ("turns", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked_for = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="netdyno-ui-") as folder:
        ids = write(Path(folder), asked_for.runs, asked_for.points)
        found = measured(Path(folder), ids, asked_for.turns)
    print(
        f"{asked_for.runs} runs, a loss of {asked_for.points} points each; {asked_for.turns} turns; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(f"{'':<38}{'median':>9}{'slowest':>10}")
    for name, seconds in found.items():
        print(f"{name:<38}{statistics.median(seconds) * 1e3:>6.0f} ms{max(seconds) * 1e3:>7.0f} ms")
    return int(any(statistics.median(seconds) > MOST_S for name, seconds in found.items() if name != COLD))


if __name__ == "__main__":
    sys.exit(main())
