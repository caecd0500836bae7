"""Who leaks, and until when."""

from netdyno.records.environment import Environment
from netdyno.rules.memory_growth import _baseline, _loader, memory_growth

SMALL = Environment(
    id="", machine="", processor="", cores=2, memory_bytes=2**30, device="cpu", system="", python="", torch="", threads=1,
    seed=0,
)  # fmt: skip


def test_the_larger_leak_is_named():
    assert "a training step" in memory_growth(_loader(5000.0), _baseline(1e6), None).says
    assert "the loader" in memory_growth(_loader(1e6), _baseline(5000.0), None).says


def test_it_says_when_memory_is_full():
    assert "after 1,024 batches" in memory_growth(_loader(2.0**20), None, SMALL).says
