"""At which rate a batch was placed."""

from netdyno.records.measured import Split
from netdyno.rules.copy_bound import _timeline, copy_bound
from netdyno.rules.idle_overlap import _case


def test_the_rate_is_told_where_the_size_of_a_batch_is_known():
    _, loader = _case(data=Split(), workers=0, sample=Split())
    assert "GB/s" in copy_bound(_timeline(0.002), loader).says
    assert "GB/s" not in copy_bound(_timeline(0.002), None).says
