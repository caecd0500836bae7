"""What a report says of a script."""

from msgspec.structs import replace

from netdyno.records.evidence import LineCost, LineCosts, OptimizerUse, Place, ScriptTrace, StepTimeline, Stretch
from netdyno.records.measured import Split
from netdyno.records.record import Patch, Plan, Record, Target, Unpatched
from netdyno.records.trial import Change
from netdyno.reports import _pictures as pictures
from netdyno.reports import _script as scripts
from netdyno.reports import html, markdown, text

TRACE = ScriptTrace(
    attached="sitecustomize", processes=1, updates=60, counted_by="optimizer", cycle=2,
    events=(("data fwd bwd step0", 30), ("fwd bwd step1", 30)),
    optimizers=(OptimizerUse(index=0, optimizer="Adam", steps=30, settings={"fused": "None", "lr": "0.1"}),),
    span_s=6.0, own_s=0.012, unattributed=0.011,
)  # fmt: skip
LINES = LineCosts(
    samples=300, hz=50.0,
    lines=(
        LineCost(where=Place(file="train.py", line=40), function="histograms", phase="after optimizer", samples=81, share=0.27),
        LineCost(where=Place(file="train.py", line=12), function="main", phase="forward", samples=3, share=0.01),
    ),
)  # fmt: skip
DIFF = "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-opt = Adam(p)\n+opt = Adam(p, fused=True)\n"


def watched(**more):
    return Record(
        id="r1", made_by="netdyno", made_at="2026-01-01T00:00:00+00:00", command="netdyno doctor train.py", plan=Plan(),
        target=Target(name="train", source="python train.py", item="update", items_per_step=1, steps_per_epoch=None),
        evidence=(TRACE, LINES, StepTimeline(steps=60, step=Split(running=0.1), phases={"forward": Split(running=0.1)})),
        **more,
    )  # fmt: skip


def test_a_declared_workload_has_no_such_part():
    assert scripts.script(replace(watched(), evidence=())) is None


def test_it_says_how_updates_were_counted_and_what_they_are_made_of():
    says = {fact.name: fact.says for fact in scripts.script(watched()).counted}
    assert says["updates"] == "60 in 6.00 s, counted by the optimizer, 2 to a period"
    assert "data fwd bwd step0 (30×)" in says["an update is"]
    assert says["optimizers"] == "Adam(lr=0.1)"


def test_lines_that_take_next_to_nothing_are_left_out():
    assert [row.where for row in scripts.script(watched()).lines] == ["train.py:40"]


def test_what_it_wrote_is_named_and_the_rest_counted():
    says = {fact.name: fact.says for fact in scripts.script(watched(wrote=tuple(f"f{i}" for i in range(8)))).counted}
    assert says["it wrote"] == "f0, f1, f2, f3, f4, f5 and 2 more"


def test_every_renderer_shows_the_patch_and_whether_it_was_verified():
    patch = Patch(diff=DIFF, files=("train.py",), verified=True, says="the edited script was run")
    record = watched(patch=patch, recipe=(Change(id="fused-optimizer"),))
    for page in (text.render(record, width=60), html.render(record), markdown.render(record)):
        assert "fused=True" in page
    assert "The patch  (verified)" in text.render(record)


def test_what_could_not_be_written_is_explained_with_its_line():
    left = Unpatched(change=Change(id="threads"), why="two places", where=Place(file="train.py", line=3))
    record = watched(patch=Patch(diff="", files=(), unpatched=(left,)), recipe=(Change(id="threads"),))
    assert "not written: threads: two places train.py:3" in text.render(record)


def test_time_in_no_call_comes_last_in_the_timeline():
    phases = {name: Split(running=0.1) for name in ("after data", "backward", "recompute", "data")}
    record = watched()
    timeline = StepTimeline(steps=1, step=Split(running=0.4), phases=phases)
    told = pictures.timeline(replace(record, evidence=(TRACE, timeline)))
    assert [row.name for row in told.rows] == ["data", "backward", "recompute", "after data"]


def test_time_between_calls_is_told_with_its_lines():
    trace = replace(TRACE, gaps={"after loss": (Stretch(file="train.py", first=97, last=100, share=1.0),)})
    timeline = StepTimeline(steps=1, step=Split(running=1.0), phases={"after loss": Split(running=0.1)})
    says = {fact.name: fact.says for fact in scripts.script(replace(watched(), evidence=(trace, timeline))).counted}
    assert says["between calls"] == "after loss 10 %: train.py:97–100"


def test_the_lines_of_a_patch_are_not_broken_on_a_narrow_page():
    long = "+optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, weight_decay=0.1, fused=True)"
    record = watched(patch=Patch(diff=f"--- a/train.py\n+++ b/train.py\n{long}\n", files=("train.py",)))
    assert long in text.render(record, width=40).splitlines()
