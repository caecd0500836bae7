"""What is told from aboard becomes evidence that rules read."""

import msgspec
import pytest

from netdyno.records.environment import Ceilings
from netdyno.records.evidence import (
    Chores,
    EvaluationUse,
    LayerTable,
    LineCosts,
    LoaderUse,
    MemoryAccount,
    OpTable,
    ParameterUse,
    ScriptTrace,
    StepTimeline,
    SyncSites,
    ThreadUse,
    UpdateOrder,
)
from netdyno.rules._base import diagnose
from netdyno.scripts.evidence import evidence, facts_of, names_in
from netdyno.scripts.stream import Hello, Patches, Point, Process, Stopped, Stream, Tick, Trouble

PHASES = {
    "data": (0.2, 0.0, 0.0),
    "forward": (1.0, 0.0, 0.0),
    "backward": (1.5, 0.4, 0.0),
    "optimizer": (0.3, 0.0, 0.0),
    "evaluation": (0.4, 0.0, 0.0),
    "after optimizer": (1.0, 0.0, 0.0),
    "after netdyno": (0.1, 0.0, 0.0),
    "netdyno": (0.1, 0.0, 0.0),
}
LOADER = {
    "file": "train.py", "line": 30, "sampler": "SequentialSampler", "batch_size": 64, "workers": 2, "dataset": "MNIST",
    "length": 938, "used_for": "training", "iterations_started": 1, "batches": 40, "first_batch_s": 0.25,
    "own_order": False, "labels_vary": True, "id": 0, "shuffled": False,
}  # fmt: skip


def line(number, samples, phase, **fields):
    return {"file": "train.py", "line": number, "function": "main", "phase": phase, "samples": samples} | fields


def tick(**fields):
    known = {
        "updates": 42,
        "watched": 40,
        "counted_by": "optimizer",
        "cycle": 1,
        "events": {"data zero_grad fwd bwd step0": 40},
        "optimizers": [{"index": 0, "kind": "SGD", "steps": 42, "settings": {"foreach": None}}],
        "phases": PHASES,
        "wall_s": 5.0,
        "own_s": 0.1,
        "lines": [line(61, 48, "after optimizer"), line(9, 100, "backward"), line(9, 5, "netdyno")],
        "samples": 250,
        "facts": {},
    }
    return msgspec.convert(known | fields, Tick)


def told(seen=None, **facts):
    seen = seen or tick(facts=facts)
    process = Process(
        pid=7,
        hello=Hello(pid=7, ppid=1),
        patches=Patches(points={"batch": Point(ok=True), "clip": Point(ok=False, why="it is gone")}),
        tick=seen,
        stopped=Stopped(reason="updates", updates=seen.updates),
        troubles=(Trouble(where="look", says="KeyError: 1"),),
    )
    return {type(item): item for item in evidence(Stream((process,)))}


def test_phases_are_told_per_watched_update_without_our_own_time():
    timeline = told()[StepTimeline]
    assert timeline.steps == 40
    assert timeline.phases["forward"].running == pytest.approx(1.0 / 40)
    assert "netdyno" not in timeline.phases
    assert timeline.step.wall == pytest.approx(4.9 / 40)
    assert timeline.own_overhead_s == pytest.approx(0.1 / 40)


def test_phases_add_up_to_the_step():
    timeline = told()[StepTimeline]
    assert sum(split.wall for split in timeline.phases.values()) == pytest.approx(timeline.step.wall)


def test_a_gap_whose_lines_are_known_is_named():
    found = told()
    assert found[StepTimeline].named_gaps == ("after optimizer",)
    assert found[ScriptTrace].unattributed == pytest.approx(0.1 / 4.9)


@pytest.mark.parametrize(
    "lines",
    [
        [line(61, 30, "after optimizer")],  # a fifth of five seconds is fifty looks of 250
        [line(number, 10, "after optimizer") for number in range(5)],
        [line(0, 48, "after optimizer", file="")],
        [line(61, 48, "after data")],
    ],
)
def test_a_gap_that_few_lines_do_not_fill_stays_unnamed(lines):
    assert "after optimizer" not in told(tick(lines=lines))[StepTimeline].named_gaps


def test_lines_are_shares_of_the_looks_that_did_not_meet_ourselves():
    costs = told()[LineCosts]
    assert costs.samples == 245
    assert [each.phase for each in costs.lines] == ["backward", "after optimizer"]
    assert costs.lines[1].share == pytest.approx(48 / 245)


def test_the_trace_says_what_did_not_work():
    trace = told()[ScriptTrace]
    assert trace.unfired == ("clip: it is gone",)
    assert trace.troubles == ("look: KeyError: 1",)
    assert (trace.stopped, trace.processes, trace.watched) == ("updates", 1, 40)
    assert trace.optimizers[0].settings == {"foreach": "None"}


def test_facts_in_another_form_are_a_trouble_and_no_evidence():
    found = told(loaders="none")
    assert LoaderUse not in found
    assert StepTimeline in found
    assert "loaders" in found[ScriptTrace].troubles[-1]


def test_without_an_update_there_is_nothing():
    assert evidence(Stream()) == ()
    assert evidence(Stream((Process(pid=7, hello=Hello(pid=7, ppid=1), tick=Tick()),))) == ()


def test_without_facts_no_rule_that_needs_them_speaks():
    found = told(tick(facts=None))
    assert {StepTimeline, ScriptTrace, LineCosts} == set(found)


def test_loaders_of_one_line_and_use_are_one():
    loaders = told(loaders=[LOADER, LOADER, LOADER | {"used_for": "evaluation"}, LOADER | {"first_batch_s": 0.35}])[
        LoaderUse
    ]
    trains, evaluates = loaders.loaders
    assert (trains.built, trains.passes, trains.start_s) == (3, 3, 0.25)
    assert (evaluates.trains, evaluates.built) == (False, 1)


def test_the_lines_that_construct_training_loaders_are_places_for_edits():
    trace = told(loaders=[LOADER, LOADER, LOADER | {"line": 31, "used_for": "evaluation"}])[ScriptTrace]
    assert [place.line for place in trace.places["loaders"]] == [30]


def test_evaluation_is_what_the_models_that_train_do():
    use = told(evaluation={"forwards": 90, "own_forwards": 80, "own_rounds": 40, "seconds": 0.4})[EvaluationUse]
    assert (use.forwards, use.own_forwards, use.rounds) == (90, 80, 40)
    assert use.seconds == pytest.approx(0.4)
    # What others had of the cores is nobody's price.
    assert use.training_s == pytest.approx(2.8)
    assert use.span_s == pytest.approx(4.5)


def test_parameters_of_modules_that_rest_are_not_missed():
    facts = {"total": 10, "never": ["a.weight", "b.weight"], "never_count": 2}
    assert told(parameters=facts)[ParameterUse].ran is None
    heard = told(parameters=facts | {"ran_and_never": ["a.weight"], "ran_and_never_count": 1})[ParameterUse]
    assert (heard.unreached, heard.ran) == (("a.weight",), True)


@pytest.mark.parametrize(
    ("words", "late"),
    [
        ("data fwd bwd clip step0", 40),
        ("data fwd bwd clip unscale step0", 40),
        ("data fwd bwd unscale clip step0", 0),
        ("data fwd*2 bwd*2 step0", 0),
    ],
)
def test_clips_before_unscaling_are_counted_from_the_events(words, late):
    seen = tick(events={words: 40}, facts={"order": {"clip_before_unscale": ["train.py", 33]}, "scaler": True})
    assert told(seen)[UpdateOrder].scaled_clips == late


def test_without_a_scale_no_clip_is_too_early():
    seen = tick(events={"data fwd bwd clip step0": 40}, facts={"scaler": False})
    order = told(seen)[UpdateOrder]
    assert (order.clips, order.scaled_clips, order.scaler_steps) == (40, 0, 0)


def test_chores_say_their_line_and_share():
    (chore,) = told(logs=[{"file": "train.py", "line": 59, "count": 40, "seconds": 0.49}])[Chores].chores
    assert (chore.what, chore.where.line) == ("log", 59)
    assert chore.share == pytest.approx(0.1)


def test_reads_of_an_evaluation_stop_no_update():
    read = {
        "file": "train.py",
        "line": 70,
        "call": "item",
        "per_update": 1.0,
        "phase": "after backward",
        "on_host": True,
    }
    sites = told(syncs=[read, read | {"phase": "evaluation"}, read | {"file": ""}])[SyncSites].sites
    assert [(site.call, site.per_step) for site in sites] == [(".item()", 1.0)]


def test_event_strings_are_read_without_their_repeats():
    assert names_in("fwd*3 bwd") == ["fwd", "bwd"]


def test_no_facts_are_no_trouble():
    assert facts_of(tick(facts=None)) == (None, None)


def test_rules_of_declared_workloads_run_on_scripts_too():
    slow = tick(phases=PHASES | {"data": (0.1, 0.0, 3.0)}, wall_s=7.9)
    states = {outcome.rule: outcome.state for outcome in diagnose(tuple(told(slow, x=1).values()))}
    assert states["input-bound"] == "found"
    assert states["optimizer-bound"] == "clear"


def test_a_chore_beside_the_model_is_found_by_its_line():
    (costly,) = [each for each in diagnose(tuple(told().values())) if each.rule == "costly-line"]
    assert costly.finding.where.line == 61


COUNTED = {
    "ops": [("aten::addmm", 10.0, 0.02), ("aten::add_", 90.0, 0.01)], "dispatches": 100.0, "operator_s": 0.03,
    "outside_s": 0.05,     "foreign_s": 0.0, "flops": 3e6, "forward_flops": 1e6, "bytes": 1e6, "dtype": "float32", "uncounted": 0,
    "memory": {
        "parameters": 400, "buffers": 8, "gradients": 400, "optimizer_state": 800, "activations": 1600,
        "peak": 2**30, "available": 2**33, "capacity": 2**34,
    },
}  # fmt: skip
THREADS = {"cores": 2, "interop": 2, "others_share": 0.25}
CEILINGS = Ceilings(environment="", threads=2, matmul={"float32": 1e11, "bfloat16": 2e11}, bandwidth=1e10)


def census(counted=None, **fields):
    return {
        "why": None,
        "dropped": 0,
        "cost_s": 0.01,
        "counted": COUNTED | (counted or {}),
        "threads": THREADS,
    } | fields


def test_operators_of_the_counted_update_stand_beside_the_time_of_a_usual_one():
    table = told(census=census())[OpTable]
    work = (1.0 + 1.5 + 0.3) / 40  # forward, backward, optimizer: what ran, without waiting for a core
    assert (table.dispatches, table.operator_s) == (100.0, 0.03)
    assert table.python_s == pytest.approx(work - 0.03)


def test_what_two_updates_differ_by_is_not_put_down_to_python():
    assert told(census=census({"outside_s": 0.002}))[OpTable].python_s == 0.002


def test_operators_that_seem_longer_than_a_usual_update_leave_nothing_to_python():
    table = told(census=census({"operator_s": 0.3, "ops": [("aten::addmm", 10.0, 0.3)]}))[OpTable]
    assert table.python_s == 0
    assert table.operator_s == pytest.approx(2.8 / 40)
    assert sum(op.seconds for op in table.ops) == pytest.approx(table.operator_s)


def test_the_counted_update_is_no_part_of_the_timeline():
    assert told(census=census(dropped=2))[StepTimeline].steps == 38


def test_the_work_of_an_update_is_told_without_layers_and_with_the_ridge_where_ceilings_are_known():
    seen = tick(facts={"census": census()})
    process = Process(pid=7, hello=Hello(pid=7, ppid=1), tick=seen)
    found = {type(item): item for item in evidence(Stream((process,)), CEILINGS)}
    work = found[LayerTable]
    assert (work.layers, work.step_flops, work.forward_flops, work.intensity) == ((), 3e6, 1e6, 3.0)
    assert work.ridge == pytest.approx(10.0)
    assert work.compute_seconds == pytest.approx(2.8 / 40)
    assert told(census=census())[LayerTable].ridge == 0


def test_where_a_strangers_operators_take_time_nobody_says_how_many_operations_there_are():
    found = told(census=census({"foreign_s": 0.01}))
    assert LayerTable not in found
    assert OpTable in found


def test_what_could_not_be_counted_is_not_left_out_silently():
    found = told(census=census({"uncounted": 1}))
    assert OpTable not in found
    assert LayerTable not in found


def test_memory_is_the_tensors_and_the_peak_is_the_processs():
    account = told(census=census())[MemoryAccount]
    assert (account.parameters, account.activations, account.workspace) == (400, 1600, 0)
    assert account.pressure == pytest.approx(1 / 8)


def test_threads_are_told_with_what_others_use():
    use = told(tick(threads=2, facts={"census": census(), "loaders": [LOADER]}))[ThreadUse]
    assert (use.torch_threads, use.cores, use.workers, use.worker_threads) == (2, 2, 2, 1)
    assert (use.interop_threads, use.others_share) == (2, 0.25)
    assert use.waiting_share == pytest.approx(0.4 / 4.9)


def test_where_nobody_knows_what_others_use_threads_are_not_told():
    assert ThreadUse not in told(tick(threads=2, facts={"census": census(threads=THREADS | {"others_share": None})}))


def test_without_a_census_its_rules_are_skipped():
    found = told(tick(threads=2, facts={"census": {"why": "a model is compiled"}}))
    assert not {OpTable, LayerTable, MemoryAccount, ThreadUse} & set(found)
    states = {outcome.rule: outcome.state for outcome in diagnose(found.values())}
    assert (states["python-bound"], states["memory-pressure"]) == ("skipped", "skipped")


def test_a_table_without_layers_serves_the_rules_of_the_roofline():
    found = told(census=census({"flops": 6e9, "bytes": 1e8}))
    work = msgspec.structs.replace(found[LayerTable], ridge=10.0)
    outcomes = diagnose([*found.values(), work], ceilings=CEILINGS)
    compute = next(outcome for outcome in outcomes if outcome.rule == "compute-bound")
    assert compute.state == "found"
    assert compute.finding.where is None
