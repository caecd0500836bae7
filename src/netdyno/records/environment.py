"""Where a run was measured, and with what: the key that decides which numbers may be compared."""

import msgspec

from netdyno.records.base import Noun


class Environment(Noun, frozen=True, kw_only=True):
    """The machine, the software and the settings of a run.

    `id` is a hash of all fields except `taken_at`, `build` and `id` itself. `build` is the text
    of `torch.__config__.show()` (ledger A-295). `packages` are the exact versions of everything
    installed beside torch (A-290).
    """

    id: str
    machine: str
    processor: str
    cores: int
    memory_bytes: int
    device: str
    system: str
    python: str
    torch: str
    threads: int
    seed: int
    driver: str | None = None
    flags: dict[str, str] = msgspec.field(default_factory=dict)
    packages: dict[str, str] = msgspec.field(default_factory=dict)
    build: str = ""
    taken_at: str = ""


class Ceilings(Noun, frozen=True, kw_only=True):
    """What this machine can do at best, measured once and cached (ledger A-003, B-105).

    `matmul` is the best matrix rate per dtype in FLOP/s, `bandwidth` the best triad rate in
    byte/s; both with the machine's own thread count.
    """

    environment: str
    threads: int
    matmul: dict[str, float]
    bandwidth: float
    taken_at: str = ""

    def ridge(self, dtype: str = "float32") -> float:
        """The arithmetic intensity, in FLOP/byte, at which the two ceilings meet (Williams 2009)."""
        return self.matmul[dtype] / self.bandwidth
