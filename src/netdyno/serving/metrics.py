"""What Prometheus is told of a service."""

from typing import TYPE_CHECKING

from netdyno.records.deployment import Manifest

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds: a small model answers in half a millisecond, and nobody waits for more than ten seconds.
LATENCIES = (
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 10.0,
)  # fmt: skip
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters and histograms of one service, in a registry of their own."""

    def __init__(self, manifest: Manifest) -> None:
        from prometheus_client import (
            CollectorRegistry,
            Counter,
            Gauge,
            GCCollector,
            Histogram,
            Info,
            PlatformCollector,
            ProcessCollector,
        )

        self.registry: CollectorRegistry = CollectorRegistry()
        for collector in (ProcessCollector, GCCollector, PlatformCollector):
            collector(registry=self.registry)

        def histogram(name: str, says: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, says, registry=self.registry, buckets=buckets)

        self._requests = Counter(
            "netdyno_requests", "Requests by path and status.", ("path", "status"), registry=self.registry
        )
        self._counted: dict[tuple[str, int], Counter] = {}
        self._refused = Counter("netdyno_refused", "Requests that were not taken.", ("why",), registry=self.registry)
        self.seconds = histogram("netdyno_request_seconds", "Seconds of an answered inference request.", LATENCIES)
        self.queued = histogram("netdyno_queue_seconds", "Seconds that an answered request waited.", LATENCIES)
        self.rows = histogram("netdyno_batch_rows", "Rows that were computed together.", tuple(map(float, ROWS)))
        self.computed = histogram("netdyno_model_seconds", "Seconds of a batch in the model.", LATENCIES)
        self.failed = Counter("netdyno_failed_batches", "Batches that the model failed on.", registry=self.registry)
        self.in_flight = Gauge("netdyno_in_flight", "Requests that wait or are computed.", registry=self.registry)
        self.waiting = Gauge("netdyno_waiting_rows", "Rows in the queue.", registry=self.registry)
        self.ready = Gauge("netdyno_ready", "1 when warmed up and not ending.", registry=self.registry)
        Info("netdyno_model", "What is served.", registry=self.registry).info(
            {
                "name": manifest.name,
                "version": manifest.version,
                "runtime": manifest.runtime.id,
                "precision": manifest.precision,
            }
        )

    def watch(
        self, *, in_flight: "Callable[[], float]", waiting: "Callable[[], float]", ready: "Callable[[], float]"
    ) -> None:
        """Read these when somebody asks."""
        self.in_flight.set_function(in_flight)
        self.waiting.set_function(waiting)
        self.ready.set_function(ready)

    def request(self, path: str, status: int) -> None:
        """Count an answer, whatever it was."""
        counter = self._counted.get((path, status))
        if counter is None:
            counter = self._counted[path, status] = self._requests.labels(path, str(status))
        counter.inc()

    def refused(self, why: str) -> None:
        """Count a request that was not taken."""
        self._refused.labels(why).inc()

    def batch(self, rows: int, seconds: float, failed: bool) -> None:
        """Count a batch."""
        self.rows.observe(rows)
        self.computed.observe(seconds)
        if failed:
            self.failed.inc()

    def text(self, accepts: str) -> tuple[bytes, str]:
        """The exposition that was asked for, and its content type."""
        from prometheus_client.exposition import choose_encoder

        encoder, kind = choose_encoder(accepts)
        return encoder(self.registry), kind
