"""Smaller images: judged on the module itself before anything is exported, tried where they keep the limit, shipped with the resize inside."""

import random
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from netdyno.records.deployment import Accuracy, Candidate, Resolution, Shipment, ShipPlan
from netdyno.records.measured import Interval
from netdyno.records.trial import Change
from netdyno.shipping import proving, resolution, walk
from netdyno.shipping.package import opened
from netdyno.shipping.walk import _racers
from netdyno.store.documents import Documents
from netdyno.verdicts import shipping as verdicts

SHIP = '''
import torch
from torch import nn
from torch.nn import functional as F

from netdyno import Release
from netdyno.targets.release import bilinear


def pictures(count, seed):
    """Half of the images have a bright half, which any resolution shows; of the others every second row is bright, which none below 32 does."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    images = 0.1 * torch.randn(count, 1, 32, 32, generator=draw)
    images[labels == 1, :, :, :16] += 1.0
    return images, labels


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 32, 5, padding=2)
        self.deep = nn.Conv2d(32, 64, 5, padding=2)
        nn.init.constant_(self.conv.weight, 0.04)

    def forward(self, images):
        bright = images.mean((1, 2, 3)) * 20 - 5
        noise = self.deep(self.conv(images).relu()).mean((1, 2, 3)) * 1e-3
        return torch.stack((-bright, bright + noise), 1)


class Stripes(nn.Module):
    """Sees only the finest rows: blind below 32 pixels."""

    def forward(self, images):
        odd = (images[:, :, 1::2] - images[:, :, ::2]).abs().mean((1, 2, 3))
        return torch.stack((-odd + 0.5, odd - 0.5), 1)


def striped(count, seed):
    images, labels = pictures(count, seed)
    images = 0.1 * torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))
    images[labels == 1, :, ::2] += 1.0
    return images, labels


def trained(model):
    torch.manual_seed(0)
    return model().eval()


Halves_ = Release(
    name="halves", model=lambda: trained(Halves), example=lambda: pictures(4, 1)[0], calibration=lambda: pictures(64, 2),
    validation=lambda: pictures(900, 3), sizes=(24, 16),
)
Stripes_ = Release(
    name="stripes", model=Stripes, example=lambda: striped(4, 1)[0], validation=lambda: striped(400, 3), sizes=(16, 8),
)
Unjudged = Release(name="unjudged", model=lambda: trained(Halves), example=lambda: pictures(4, 1)[0], sizes=(16,))
'''


@pytest.fixture
def ship(tmp_path):
    (tmp_path / "ship.py").write_text(SHIP)
    return str(tmp_path / "ship.py")


def journey(reference, left=600.0, exhaustive=False):
    from netdyno.shipping.subject import opened as subject_of

    subject = subject_of(reference)
    times = iter(range(1000))
    return SimpleNamespace(
        subject=subject, plan=ShipPlan(max_drop=0.01, exhaustive=exhaustive), left=lambda: left, clock=lambda: float(next(times)), says=lambda _: None,
        at=lambda side: f"{reference}@{side}", source=subject_of, chance=random.Random(0),
    )  # fmt: skip


def test_the_share_of_data_is_exact():
    data = resolution._left_out(192, 224, "why").data
    assert data == (192 / 224) ** 2
    assert data == pytest.approx(0.735, abs=5e-4)  # what the ledger names


def test_what_any_resolution_shows_is_kept_from_the_smallest_on(ship):
    found = list(resolution.swept(journey(f"{ship}:Halves_")))
    assert [(one.side, one.data) for one in found] == [(16, 0.25), (24, 0.5625)]
    assert all(one.accuracy.decision == "holds" for one in found)


def test_a_size_that_loses_too_much_says_nothing_of_the_others(ship):
    found = list(resolution.swept(journey(f"{ship}:Stripes_")))
    assert [(one.side, one.accuracy.decision) for one in found] == [(8, "broken"), (16, "broken")]


def test_where_two_sizes_keep_the_limit_no_larger_one_is_looked_at(ship, monkeypatch):
    monkeypatch.setattr(resolution, "WANTED", 1)
    small, left = resolution.swept(journey(f"{ship}:Halves_"))
    assert small.accuracy.decision == "holds"
    assert (left.side, left.accuracy) == (24, None)
    assert left.says == "not tried: 16 pixels are fewer, and may keep the limit"


def test_without_validation_data_nothing_is_believed(ship):
    (left,) = resolution.swept(journey(f"{ship}:Unjudged"))
    assert left.accuracy is None
    assert "no validation data" in left.says


def test_a_sweep_that_would_eat_the_budget_ends_aloud(ship):
    first, left = resolution.swept(journey(f"{ship}:Halves_", left=4.0))
    assert first.accuracy is not None
    assert "the budget has no room for that" in left.says


def test_the_first_look_does_not_pay_for_the_module_itself(ship, monkeypatch):
    order = []
    monkeypatch.setattr(resolution.accuracy, "prepare", lambda subject: order.append("module"))
    monkeypatch.setattr(
        resolution, "_looked_at", lambda journey, side, own, limit: order.append(side) or looked(side, "holds")
    )
    assert [one.side for one in resolution.swept(journey(f"{ship}:Halves_"))] == [16, 24]
    assert order == ["module", 16, 24]


def seen(runtime, factor, side=None):
    return Candidate(
        change=Change(id=runtime), side=side, speedup=Interval(middle=factor, low=factor, high=factor), precision="fp32"
    )


def looked(side, decision):
    found = Accuracy(
        rows=9, control=1.0, treatment=1.0, drop=Interval(middle=0, low=0, high=0), limit=0.01, decision=decision
    )
    return Resolution(side=side, data=(side / 224) ** 2, accuracy=found)


def test_the_two_quickest_ways_are_tried_at_the_smallest_images_that_may_hold(ship):
    ways = [seen("slow", 2.0), seen("quick", 6.0), seen("second", 5.0), seen("quick", 9.0, side=192)]
    looks = [looked(192, "holds"), looked(160, "cannot tell"), looked(128, "holds"), looked(112, "broken")]
    here = journey(f"{ship}:Halves_")
    found = list(resolution.proposals(here, ways, looks))
    assert [(one.change.id, one.side) for one in found] == [("quick", 128), ("second", 128)]
    assert found[0].origin.endswith(":Halves_@128")
    assert found[0].says == ("images are resized to 128 pixels inside, 0.327 of the data",)
    (above,) = resolution.larger(here, found[0], looks)
    assert (above.change.id, above.side) == ("quick", 160)
    assert list(resolution.larger(here, ways[0], looks)) == []


def test_the_second_way_is_tried_smaller_only_when_it_is_near(ship):
    ways = [seen("quick", 6.0), seen("second", 4.0)]
    looks = [looked(128, "holds")]
    assert [one.change.id for one in resolution.proposals(journey(f"{ship}:Halves_"), ways, looks)] == ["quick"]
    whole = journey(f"{ship}:Halves_", exhaustive=True)
    assert [one.change.id for one in resolution.proposals(whole, ways, looks)] == ["quick", "second"]


def test_what_loses_too_much_on_smaller_images_is_tried_there_in_the_quickest_other_precision(ship):
    ways = [replace(seen("quick", 6.0), precision="int8"), seen("float", 4.0), seen("slow", 2.0)]
    here = journey(f"{ship}:Halves_")
    looks = [looked(128, "holds")]
    (lost,) = resolution.proposals(here, ways, looks)
    (other,) = resolution.in_other_precision(here, lost, ways, looks)
    assert (other.change.id, other.side, other.says[0]) == (
        "float",
        128,
        "images are resized to 128 pixels inside, 0.327 of the data",
    )
    assert list(resolution.in_other_precision(here, lost, [*ways, other], looks)) == []
    assert list(resolution.in_other_precision(here, ways[0], ways, looks)) == []


def test_ways_on_images_as_they_come_stay_in_the_race():
    whole, small = seen("quick", 5.0), seen("quick", 20.0, side=112)
    shipment = Shipment(id="x", made_by="", made_at="", command="", target="", candidates=(whole, small))
    assert sorted(_racers(shipment)) == [0, 1]


def test_a_smaller_picture_is_never_kept_on_parity_alone():
    plan = ShipPlan()
    small = seen("quick", 20.0, side=112)
    (met, *_) = verdicts.judged(small, plan)
    assert met.ok is None


def test_the_walk_ships_the_resize_inside_and_says_so(ship, tmp_path, monkeypatch):
    for constant in ("SPAWNS", "PAIRS"):  # it is about what is shipped, not about how surely it is timed
        monkeypatch.setattr(proving, constant, 2)
    monkeypatch.setattr(proving, "CALLS", 100)
    monkeypatch.setattr(walk, "RACE_ROUNDS", 4)
    plan = ShipPlan(
        max_drop=0.01,
        only=("torchscript",),
        batches=(1, 2),
        threads=(1,),
        budget_s=240.0,
        allow=("batchnorm-statistics",),
    )
    found = walk.deploy(f"{ship}:Halves_", plan, shelf=Documents(tmp_path / "store"), package=tmp_path / "package")
    winner = found.candidates[found.winner]
    assert winner.side == 16
    assert winner.accuracy.decision == "holds"
    assert found.ladder[-1].name.endswith("at 16")
    package = opened(tmp_path / "package")
    assert package.manifest.signature.inputs[0].shape == (1, 32, 32)
    assert "resized to 16 pixels inside" in package.manifest.proofs["resolution"]
    package.proven(package.call())
