"""What int8 ruins: kept in float, or trained for int8, and shipped where that mends it."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from netdyno.records.deployment import Built, Candidate, Rung, Shipment, ShipPlan
from netdyno.records.measured import Interval
from netdyno.records.trial import Change
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes.aot_inductor import AotInductor
from netdyno.runtimes.openvino import Openvino
from netdyno.shipping import fallback, proving, walk
from netdyno.store.documents import Documents

SHIP = '''
import torch
from torch import nn
from torch.utils.data import TensorDataset

from netdyno import Release


def rows(count, seed):
    x = torch.randn(count, 16, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, :8].sum(1) > x[:, 8:].sum(1)).long()


class Loud(nn.Module):
    """One hidden unit is three thousand times as loud as the others, and nobody listens to it: with one scale for all, int8 hears nothing else."""

    def __init__(self):
        super().__init__()
        self.inside, self.head = nn.Linear(16, 32), nn.Linear(32, 2)

    def forward(self, x):
        return self.head(self.inside(x).relu())


def trained():
    torch.manual_seed(0)
    model = Loud()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = rows(2000, 1)
    for _ in range(200):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        model.inside.weight[0] *= 3000
        model.inside.bias[0] *= 3000
        model.head.weight[:, 0] = 0
    return model.eval()


def hush(model):
    """What weight decay does to a unit that nobody listens to; then the ranges settle."""
    x, _ = rows(256, 4)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.shape[0] == 32:
                parameter[0] = 0
        for _ in range(1500):
            model(x)


Quiet = Release(
    name="quiet", model=trained, example=lambda: rows(4, 2)[0], calibration=lambda: TensorDataset(*rows(200, 1)),
    validation=lambda: TensorDataset(*rows(2000, 3)), train=hush,
)
'''
UNLIKE = Rung(name="screened", rows=4, batch=4, holds=False, says="not the module's answers")


def int8(runtime, **more):
    return Candidate(change=Change(id=runtime), precision="int8", built=Built(key=runtime), **more)


def float_(runtime, factor):
    return Candidate(change=Change(id=runtime), speedup=Interval(middle=factor, low=factor, high=factor))


def test_int8_that_is_ruined_everywhere_is_mended_in_the_quickest_runtime():
    lost = [int8(runtime, failed="unlike", parity=(UNLIKE,)) for runtime in ("slow", "quick")]
    there = [float_("slow", 2.0), float_("quick", 5.0), *lost]
    assert walk.ruined_by_int8(there) == lost[1]


def test_int8_that_works_somewhere_or_crashed_is_left():
    lost = int8("one", failed="unlike", parity=(UNLIKE,))
    assert walk.ruined_by_int8([lost, int8("other")]) is None
    assert walk.ruined_by_int8([int8("one", failed="it crashed")]) is None
    assert walk.ruined_by_int8([float_("one", 2.0)]) is None
    assert walk.ruined_by_int8([replace(lost, built=None)]) is None


def test_gentler_settings_come_before_any_layer_is_measured():
    lost = Candidate(change=runtimes.written(Openvino("int8")), precision="int8", side=112, failed="unlike")
    found = next(fallback.proposals(None, lost))
    assert (found.change, found.side) == (runtimes.written(Openvino("int8", "mixed")), 112)
    assert found.says == ("gentler than openvino(precision=int8, preset=performance); that one: unlike",)


def test_what_waited_takes_its_own_place_when_it_is_tried(tmp_path, monkeypatch):
    waits = Candidate(change=runtimes.written(Openvino("int8", "mixed")), precision="int8", skipped="it waits")
    here = SimpleNamespace(says=lambda _: None, tried=lambda one, _: one, shelf=Documents(tmp_path))
    shipment = Shipment(id="x", made_by="", made_at="", command="", target="", candidates=(waits, float_("slow", 2.0)))
    found, rescue = walk._tried_again(here, shipment, replace(waits, skipped=None))
    assert found.candidates == (rescue, shipment.candidates[1])


def deployed(tmp_path, monkeypatch):
    for constant in ("SPAWNS", "PAIRS"):  # it is about what is shipped, not about how surely it is timed
        monkeypatch.setattr(proving, constant, 2)
    monkeypatch.setattr(proving, "CALLS", 100)
    monkeypatch.setattr(AotInductor, "variants", classmethod(lambda kind, traits: (kind(precision="int8"),)))
    (tmp_path / "ship.py").write_text(SHIP)
    plan = ShipPlan(max_drop=0.01, only=("aot-inductor",), batches=(1, 2), threads=(1,), budget_s=400.0)
    shelf, package = Documents(tmp_path / "store"), tmp_path / "package"
    found = walk.deploy(f"{tmp_path / 'ship.py'}:Quiet", plan, shelf=shelf, package=package)
    assert "not the module's answers" in found.candidates[0].failed
    winner = found.candidates[found.winner]
    assert (winner.precision, winner.accuracy.decision) == ("int8", "holds")
    assert found.package
    return " ".join(winner.says)


@pytest.mark.slow
def test_the_layer_that_int8_ruins_is_kept_in_float(tmp_path, monkeypatch):
    pytest.importorskip("torchao", reason="int8 by torch needs torchao: pip install 'netdyno[ship]'")
    assert deployed(tmp_path, monkeypatch).startswith("kept in float: head; without it")


@pytest.mark.slow
def test_a_release_that_can_be_trained_for_int8_is_shipped_in_int8(tmp_path, monkeypatch):
    """Where no choice of layers helps, the release's own training does, and the package is of what came out of it."""
    pytest.importorskip("torchao", reason="quantisation-aware training needs torchao: pip install 'netdyno[ship]'")
    monkeypatch.setattr(fallback, "proposals", lambda *told: ())
    assert "set up by training" in deployed(tmp_path, monkeypatch)
