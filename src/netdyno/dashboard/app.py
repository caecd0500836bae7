"""What the page asks for, each question a path. All of it is read from the store, and nothing is written."""

import importlib.util
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from netdyno.dashboard import pieces
from netdyno.dashboard.guard import App, Guard
from netdyno.dashboard.listing import Listing
from netdyno.errors import NetdynoError
from netdyno.store import Store

PAGE = Path(__file__).parent / "page"
MOST_ASKED = 400  # series in one question; the page shows fewer
MOST_POINTS, MOST_SMOOTH = 10_000, 2_000
# A report brings its own policy, with the hash of its script.
REPORT_POLICY = "frame-ancestors 'none'; form-action 'none'"
_drawing = threading.Lock()  # the library that draws a report's charts draws one at a time


def application(store: Path, *, host: str = "127.0.0.1", token: str | None = None) -> App:
    """The page over a store, guarded."""
    return Guard(Pages(Listing(store)).app(), host=host, token=token)


class Pages:
    """Answers; each method is one path."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing

    def app(self) -> App:
        """The paths."""
        routes = [
            Route("/", _index),
            Route("/api/runs", self.runs),
            Route("/api/records", self.records),
            Route("/api/run", self.run),
            Route("/api/points", self.points),
            Route("/api/events", self.events),
            Route("/record", self.record),
            Route("/static/plotly.min.js", _charts),
            Mount("/static", StaticFiles(directory=PAGE)),
        ]
        return Starlette(routes=routes)

    def runs(self, _request: Request) -> Response:
        """The list."""
        return _json({"store": str(self.listing.store.resolve()), "runs": self.listing.runs()})

    def records(self, _request: Request) -> Response:
        """The records on the shelf."""
        return _json(
            [
                {
                    "id": each.id, "made_at": each.made_at, "target": each.target, "finished": each.finished,
                    "tried": each.tried, "kept": each.kept, "speedup": each.speedup, "broken": each.broken,
                }
                for each in self.listing.records()
            ]
        )  # fmt: skip

    def run(self, request: Request) -> Response:
        """What a run is, and the series it has."""
        run = self.listing.run(request.query_params.get("run", ""))
        if run is None:
            return _nothing()
        return _json({"info": run.info, "series": run.names()})

    def points(self, request: Request) -> Response:
        """Points of several series, each from a number on: `ask` is a list of run, series, number."""
        asked = _asked(request.query_params.get("ask", ""))
        if asked is None:
            return PlainTextResponse("`ask` is a JSON list of [run, series, number]", status_code=400)
        points = _within(request, "points", pieces.MOST_POINTS, 10, MOST_POINTS)
        smooth = _within(request, "smooth", 1, 1, MOST_SMOOTH)
        runs = {name: self.listing.run(name) for name in {name for name, _, _ in asked}}
        found = [
            pieces.piece(run, series, start=start, points=points, smooth=smooth)
            for name, series, start in asked
            if (run := runs[name]) is not None
        ]
        return _json({"pieces": found})

    def events(self, request: Request) -> Response:
        """Events of a run, from a byte on."""
        run = self.listing.run(request.query_params.get("run", ""))
        if run is None:
            return _nothing()
        told, after = run.events(_within(request, "start", 0, 0, 1 << 62))
        return _json({"events": pieces.newest(told), "next": after})

    def record(self, request: Request) -> Response:
        """A record as its report."""
        path = self.listing.record(request.query_params.get("id", ""))
        if path is None:
            return _nothing()
        from netdyno.reports import html

        try:
            with _drawing:
                text = html.render(Store(self.listing.store).load(str(path)))
        except NetdynoError as error:
            return PlainTextResponse(str(error), status_code=500)
        return Response(text, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


def charts_file() -> Path | None:
    """The chart library as its package ships it; None where the package is not installed."""
    found = importlib.util.find_spec("plotly")
    places = [] if found is None else list(found.submodule_search_locations or [])
    return next((path for place in places if (path := Path(place, "package_data", "plotly.min.js")).is_file()), None)


def _index(_request: Request) -> Response:
    return FileResponse(PAGE / "index.html")


def _charts(_request: Request) -> Response:
    path = charts_file()
    # Five megabytes that change with the package only: the browser asks again after a day.
    return _nothing() if path is None else FileResponse(path, headers={"cache-control": "private, max-age=86400"})


def _asked(text: str) -> list[tuple[str, str, int]] | None:
    try:
        return msgspec.json.decode(text, type=list[tuple[str, str, int]])[:MOST_ASKED]
    except msgspec.DecodeError:
        return None


def _within(request: Request, name: str, default: int, low: int, high: int) -> int:
    text = request.query_params.get(name, "")
    return min(max(int(text), low), high) if text.isascii() and text.isdigit() and len(text) < 20 else default


def _json(value: Any, encode: Callable[[Any], bytes] = msgspec.json.encode) -> Response:
    return Response(encode(value), media_type="application/json")


def _nothing() -> Response:
    return PlainTextResponse("there is nothing of that name in this store", status_code=404)
