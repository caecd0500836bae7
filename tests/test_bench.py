"""How the walk shares out a run's time."""

from types import SimpleNamespace

from msgspec.structs import replace

from netdyno import bench
from netdyno.records.record import Plan
from netdyno.store import Store
from reports.specimens import golden


def campaign(tmp_path, *, spent):
    lab = SimpleNamespace(plan=Plan(budget_s=100.0))
    return bench.Campaign(lab=lab, store=Store(tmp_path), listener=lambda _: None, clock=lambda: spent, began=0.0)


def test_a_first_trial_is_taken_though_looking_took_the_walks_part_of_the_time(tmp_path):
    late = campaign(tmp_path, spent=100 * bench.WALK + 10)
    untried = replace(golden(), trials=(), verdicts=())
    assert bench._left_to_walk(late, untried) == late.left(bench.FIRST_TRIAL) > 0
    assert bench._left_to_walk(late, golden()) < 0
