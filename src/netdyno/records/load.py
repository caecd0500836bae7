"""What loading a service found: every request's seconds from when it was due, and the highest rate that held."""

from typing import Literal

import msgspec

from netdyno.records.base import Noun
from netdyno.records.deployment import Constraint, Met, Percentile

Arrivals = Literal["poisson", "constant"]
Scenario = Literal["single-stream", "offline", "server"]

# History:
# 1  the first form
LOAD_VERSION = 1


class Offered(Noun, frozen=True, kw_only=True):
    """One stretch of open-loop load: requests were sent when they were due, whether earlier ones had been answered or not.

    `samples` are seconds from when each request was due to its last byte, in the order they were due: what a request waited for a free
    connection, or for a server that stood still, is in them. A request that failed stands there with `timeout_s`. `failures` count
    them by reason. `lags` are how much of that each was sent too late by the generator itself, and `lag` is their P99.
    `generator_cpu` is its share of one core; `server_cpu_s` the CPU seconds of an answer over the server's processes, `server_bytes` their
    memory at the end, None where the server is not ours to look at. `given_up` says that the rest was not sent because the promise was broken already.
    """

    rate: float
    arrivals: Arrivals = "poisson"
    seconds: float = 0.0
    due: int = 0
    samples: tuple[float, ...] = ()
    lags: tuple[float, ...] = ()
    failures: dict[str, int] = msgspec.field(default_factory=dict)
    timeout_s: float = 0.0
    percentiles: tuple[Percentile, ...] = ()
    lag: Percentile | None = None
    connections: int = 0
    most_in_flight: int = 0
    waited: int = 0
    generator_cpu: float = 0.0
    server_cpu_s: float | None = None
    server_bytes: int | None = None
    given_up: bool = False
    says: tuple[str, ...] = ()

    @property
    def failed(self) -> int:
        """How many requests were not answered as they should."""
        return sum(self.failures.values())


class Probe(Noun, frozen=True, kw_only=True):
    """A stretch of load and the verdict on it: `ok` None where it cannot be told."""

    load: Offered
    met: tuple[Met, ...] = ()
    ok: bool | None = None
    says: str = ""


class LoadGenRun(Noun, frozen=True, kw_only=True):
    """One run of MLPerf LoadGen's scenarios over a model. This is no MLPerf result: that name is for reviewed submissions.

    `valid` is LoadGen's own verdict; `reasons` are its words where it is not. `percentiles` are LoadGen's; `bounds` its early-stopping estimates,
    upper bounds at 99 % confidence; `own` are those of the seconds that we took ourselves, with intervals. `needs` is how many more
    queries it would take.
    """

    scenario: Scenario
    valid: bool
    queries: int = 0
    rows: int = 1
    seconds: float = 0.0
    rate: float = 0.0
    target_rate: float | None = None
    limit_s: float | None = None
    share: float | None = None
    percentiles: tuple[Percentile, ...] = ()
    bounds: tuple[Percentile, ...] = ()
    own: tuple[Percentile, ...] = ()
    needs: int | None = None
    reasons: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    version: str = ""
    summary: str = ""


class LoadPlan(Noun, frozen=True, kw_only=True):
    """What `netdyno load` was asked to do. `rate` None: find the highest that holds."""

    objective: tuple[Constraint, ...] = ()
    rate: float | None = None
    start: float = 10.0
    most: float = 20_000.0
    probe_s: float = 10.0
    most_probe_s: float = 120.0
    budget_s: float = 600.0
    precision: float = 1.05
    arrivals: Arrivals = "poisson"
    connections: int = 64
    timeout_s: float = 5.0
    rows: int = 1
    level: float = 0.95
    seed: int = 0


class Load(Noun, frozen=True, kw_only=True):
    """A load test: what was offered to which service, and what held.

    `held` is the highest rate that kept the objective, below every rate that did not; `broken` the lowest that broke it; rates
    between the two were not told apart. `met` and `ok` are the verdict on the objective as a whole: at the rate that was asked for, or at `held`.
    """

    schema_version: int = LOAD_VERSION
    id: str
    made_by: str
    made_at: str
    command: str
    target: str
    plan: LoadPlan = LoadPlan()
    probes: tuple[Probe, ...] = ()
    held: float | None = None
    broken: float | None = None
    met: tuple[Met, ...] = ()
    ok: bool | None = None
    loadgen: LoadGenRun | None = None
    says: tuple[str, ...] = ()
    finished: bool = False
    wall_s: float = 0.0
