"""Journals to look at, and a server over them that ends with its test."""

import asyncio
import contextlib
import http.client
import json
import threading

import msgspec

from netdyno.dashboard.serve import listen
from netdyno.records.journal import Alert
from netdyno.store.journal import Journal, new_info


def journal(store, name="digits", *, losses=(1.0, 0.5), tags=None, end="ended", alerts=(), **series):
    """A run that wrote these losses, one for each update; `end=None` leaves it open."""
    written = Journal.create(store, new_info(name, tags=tags or {}))
    for told, values in {"loss": losses, **series}.items():
        for update, value in enumerate(values, start=1):
            written.point(told.replace("__", "/"), update, value, seconds=update * 0.1)
    for cause in alerts:
        told = Alert(
            cause=cause, severity="warning", says=f"{cause} at update 2", update=2, seconds=0.2, because={"size": 3.0}
        )
        written.event("alert", 2, alert=msgspec.to_builtins(told))
    written.flush()
    if end is not None:
        written.close(end, len(losses), updates=len(losses))
    return written


class Answer:
    """Status, headers and body."""

    def __init__(self, answer):
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        self.text = answer.read().decode("utf-8", "replace")

    @property
    def json(self):
        return json.loads(self.text)


class Page:
    """A page that is being served, and how one asks it."""

    def __init__(self, port):
        self.port = port
        self.url = f"http://127.0.0.1:{port}/"

    def get(self, path, *, method="GET", **headers):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            line.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            return Answer(line.getresponse())
        finally:
            line.close()

    def points(self, *asked, **settings):
        from urllib.parse import urlencode

        return self.get(f"/api/points?{urlencode({'ask': json.dumps(asked), **settings})}").json["pieces"]


@contextlib.contextmanager
def page(store, *, host="127.0.0.1", token=None):
    """The page over a store, on a port of its own."""
    import uvicorn

    from netdyno.dashboard.app import application

    socket = listen("127.0.0.1", 0)
    server = uvicorn.Server(
        uvicorn.Config(application(store, host=host, token=token), log_level="error", lifespan="off", ws="none")
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[socket])), daemon=True)
    thread.start()
    try:
        yield Page(socket.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        socket.close()
