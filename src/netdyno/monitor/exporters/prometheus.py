"""Prometheus: the last value of each series and the number of alerts, at http://HOST:PORT/metrics or in a text file.

Needs:  the package prometheus-client.
Opens:  a scrape of the address; `OUT` without a port is a file for the textfile collector.
"""

import errno
import re
from pathlib import Path
from typing import Any, ClassVar

from netdyno.errors import NetdynoError
from netdyno.monitor.exporters._base import Exporter, News
from netdyno.store.journal import Run

# Bound to this machine unless told: a port that others can reach is theirs to read.
USUAL = "127.0.0.1:9464"


class Prometheus(Exporter):
    """Serves `OUT`, an address such as `127.0.0.1:9464` (port 0 takes any that is free), or writes the file `OUT`."""

    needs: ClassVar[dict[str, str]] = {"prometheus_client": "prometheus-client"}
    serves: ClassVar[bool] = True

    def __init__(self, out: str | Path = USUAL) -> None:
        super().__init__(out)
        self._server: Any = None

    @classmethod
    def usual(cls, store: Path, run: str) -> str:  # noqa: ARG003  an address is the machine's, not a store's
        return USUAL

    def begin(self, run: Run) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge

        info = run.info
        self.id = info.id
        self.registry = CollectorRegistry()
        self._values = Gauge("netdyno_series", "Last value of a series.", ["run", "series"], registry=self.registry)
        self._update = Gauge("netdyno_update", "Optimizer steps so far.", ["run"], registry=self.registry)
        self._alerts = Counter("netdyno_alerts", "Alerts told.", ["run", "cause", "severity"], registry=self.registry)
        about = Gauge("netdyno_run", "What the run is.", ["run", "name", "stage"], registry=self.registry)
        about.labels(info.id, info.name, info.tags.get("stage", "")).set(1)
        self._last = 0.0
        if address(self.out) is not None:
            self._serve(*address(self.out) or ("", 0))

    def _serve(self, host: str, port: int) -> None:
        from prometheus_client import start_http_server

        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=self.registry)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            raise NetdynoError(
                f"cannot serve metrics at `{self.out}`",
                because="another program has this port" if taken else str(error.strerror or error),
                hint=f"use another port, such as `{host}:{port + 1}`, or `{host}:0` for any that is free",
            ) from error

    @property
    def where(self) -> str:
        if self._server is None:
            return self.out
        host, port = self._server.server_address[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    def take(self, news: News) -> None:
        for name, points in news.series.items():
            self._values.labels(self.id, name).set(points.values[-1])
            self._last = max(self._last, float(points.updates[-1]))
        for event in news.events:
            self._last = max(self._last, float(event.get("update") or 0))
        self._update.labels(self.id).set(self._last)
        for alert in news.alerts():
            self._alerts.labels(self.id, alert.cause, alert.severity).inc()
        if self._server is None:
            from prometheus_client import write_to_textfile

            Path(self.out).parent.mkdir(parents=True, exist_ok=True)
            write_to_textfile(self.out, self.registry)

    def close(self, state: str) -> None:  # noqa: ARG002  who is gone is not scraped
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(timeout=5.0)


def address(out: str) -> tuple[str, int] | None:
    """Host and port, if that is what it is.

    >>> address("127.0.0.1:9464"), address("[::1]:0"), address("run.prom")
    (('127.0.0.1', 9464), ('::1', 0), None)
    """
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:]+)\]|([\w.\-]+)):(\d{1,5})", out)
    return (found[1] or found[2], int(found[3])) if found is not None and int(found[3]) < 1 << 16 else None


EXPORTER = Prometheus
