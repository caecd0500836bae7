"""A deployment as people read it: the answer first, every number with its range, silence told apart from never looked."""

import json
import re

import msgspec
import pytest

from netdyno.records.deployment import (
    Accuracy,
    Built,
    Candidate,
    GateCheck,
    Latency,
    Percentile,
    Rung,
    Running,
    Shipment,
    ShipPlan,
    Step,
)  # fmt: skip
from netdyno.records.measured import Interval, Measurement
from netdyno.records.trial import Change, Trial
from netdyno.reports import _shipment as report
from netdyno.reports import _shipment_page as page
from netdyno.verdicts import shipping
from netdyno.verdicts.slo import parse

PLAN = ShipPlan(objective=parse("p99<=15ms"), max_drop=0.005)


def about(middle, spread=0.05):
    return Interval(middle=middle, low=middle * (1 - spread), high=middle * (1 + spread))


def candidate(name, ms, precision="fp32", drop=0.0):
    seconds = (ms / 1e3,) * 1200
    made = Candidate(
        change=Change(id=name, settings={"precision": precision}),
        precision=precision,
        running=Running(threads=2),
        stage="measured",
        built=Built(key=name, bytes=12_000_000, seconds=3.0),
        parity=(Rung(name="reloaded", rows=64, batch=1, worst=1e-3, sqnr_db=41.0, flips=0.0, holds=True, says="41 dB"),),
        accuracy=Accuracy(
            rows=2000, control=0.912, treatment=0.912 - drop, lost=9, won=9,
            drop=Interval(middle=drop, low=drop - 0.003, high=drop + 0.003), limit=0.005,
            decision="holds" if drop < 0.002 else "broken", says=f"loses {100 * drop:.1f} points",
        ),
        trial=Trial(
            change=Change(id=name), against=(), form="processes", numerics="reordered",
            control=Measurement(quantity="answer", unit="s", samples=(0.03,) * 15),
            treatment=Measurement(quantity="answer", unit="s", samples=(ms / 1e3,) * 15),
        ),
        latency=(Latency(rows=1, samples=seconds, percentiles=shipping.percentiles(seconds), cpu_s=ms / 5e2, foreign=0.3),),
        speedup=about(30 / ms),
        offline_rate=700.0,
        load_s=0.8,
        first_s=0.01,
        memory_bytes=187_000_000,
    )  # fmt: skip
    return msgspec.structs.replace(made, met=shipping.judged(made, PLAN))


def shipment(**fields):
    ways = (
        candidate("openvino", 1.7, "int8", drop=0.001),
        candidate("openvino", 2.6, "bf16"),
        candidate("onnx-runtime", 17.7),
        candidate("torchscript", 5.0, "int8", drop=0.03),
        Candidate(change=Change(id="tensorrt"), skipped="it needs an NVIDIA GPU"),
        Candidate(change=Change(id="compiled"), failed="error: cc1plus was killed"),
    )
    ways = shipping.front(ways, PLAN)
    known = {
        "id": "2026-12-01-resnet-0000", "made_by": "netdyno", "made_at": "2026-12-01T00:00:00+00:00", "command": "netdyno deploy",
        "target": "ship.py:ResNet", "plan": PLAN, "candidates": ways, "control": candidate("eager", 30.0), "winner": 0,
        "gate": (GateCheck(name="eval-mode", ok=True, says="39 modules are in eval mode"),
                 GateCheck(name="grad-guard", ok=False, warning=True, says="62 parameters want gradients")),
        "ladder": (Step(name="eager fp32", seconds=about(0.03), accuracy=0.912),
                   Step(name="openvino int8", seconds=about(0.0017), ratio=about(17.6), accuracy=0.911)),
        "roofline": "at most 2.4 times is left", "package": "resnet-package", "energy": "not measurable here: no counter",
        "finished": True, "wall_s": 120.0,
    }  # fmt: skip
    return Shipment(**(known | fields))


def test_the_answer_comes_first_with_its_range():
    first = report.render(shipment()).splitlines()[0]
    assert first.startswith("openvino(precision=int8): 17.6x (16.8 to 18.5) faster")


def test_what_breaks_the_objective_says_so_and_what_failed_says_why():
    told = report.render(shipment())
    assert "loses 3.0 points" in told
    assert "cc1plus was killed" in told
    assert "1 not tried" in told
    assert "tensorrt" not in told
    assert "it needs an NVIDIA GPU" in report.render(shipment(), everything=True)


def test_a_warning_of_the_gate_is_shown_without_asking():
    told = report.render(shipment())
    assert "62 parameters want gradients" in told
    assert "39 modules are in eval mode" not in told


def test_a_stop_at_the_gate_names_the_reason_and_the_fix():
    check = GateCheck(
        name="eval-mode", ok=False, says="2 modules are in training mode", fix="call `model.eval()`", where="0.drop"
    )
    told = report.render(shipment(gate=(check,), candidates=(), winner=None, ladder=(), control=None))
    assert told.splitlines()[0] == "stopped at the gate: eval-mode"
    assert "fix: call `model.eval()`" in told


def test_no_winner_is_an_answer():
    told = report.render(shipment(winner=None, says=("nearest is openvino: P99 is 17 ms",)))
    assert told.startswith("no way to run it surely keeps the objective")
    assert "nearest is openvino" in told


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_window(width):
    for line in report.render(shipment(), width=width, everything=True).splitlines():
        assert len(line) <= width


def test_an_imprecise_percentile_is_marked():
    assert "imprecise: 30 calls" in report.percentile(Percentile(share=0.99, seconds=0.01, samples=30, precise=False))


def test_the_page_holds_its_document_and_asks_no_network():
    html = page.render(shipment())
    held = re.search(r'id="record-data">(.*?)</script>', html, re.DOTALL)
    assert json.loads(held[1])["id"] == "2026-12-01-resnet-0000"
    assert not re.search(r'(src|href)="(?!#|data:)', html)
    assert html.count("<svg") == 3
    assert "</html>" in html


def test_the_page_of_a_stop_at_the_gate_is_whole():
    check = GateCheck(name="eval-mode", ok=False, says="<b>two</b> modules", fix="call `model.eval()`")
    html = page.render(shipment(gate=(check,), candidates=(), winner=None, ladder=(), control=None))
    assert "&lt;b&gt;two&lt;/b&gt;" in html
    assert "call `model.eval()`" in html
