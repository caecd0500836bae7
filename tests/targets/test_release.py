"""A release at another resolution is the same release: its data, its name and its rows, its module behind a resize."""

import pytest
import torch
from torch import nn

from netdyno.errors import TargetError
from netdyno.shipping.subject import named
from netdyno.targets import release as releases
from netdyno.targets.release import Release, Resized, bilinear

SHIP = """
import torch
from torch import nn
from netdyno import Release

Pictures = Release(
    model=lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    example=lambda: torch.rand(2, 3, 16, 16),
    sizes=(12, 8),
)
Rows = Release(model=lambda: nn.Linear(3, 2), example=lambda: torch.rand(2, 3))
"""


@pytest.fixture
def ship(tmp_path):
    (tmp_path / "ship.py").write_text(SHIP)
    return str(tmp_path / "ship.py")


def test_a_side_behind_the_name_is_the_same_release_at_that_resolution(ship):
    whole, small = releases.load(f"{ship}:Pictures"), releases.load(f"{ship}:Pictures@8")
    images = torch.rand(2, 3, 16, 16)
    inside = small.module()
    assert isinstance(inside, Resized)
    assert torch.equal(inside(images), whole.module()(bilinear(images, 8)))
    assert small.name == whole.name
    assert small.sample()[0].shape == (2, 3, 16, 16)  # clients send what they sent
    assert small.sizes == ()


def test_rows_that_are_no_square_images_are_refused(ship):
    with pytest.raises(TargetError, match="cannot be tried at other resolutions"):
        releases.load(f"{ship}:Rows@2")


def test_modules_that_are_resized_otherwise_have_other_names():
    inside = nn.Linear(2, 2)

    def nearest(images, side):
        return nn.functional.interpolate(images, size=(side, side))

    names = {named(Resized(inside, side, by)) for side in (8, 12) for by in (bilinear, nearest)}
    assert len(names | {named(inside)}) == 5


def test_what_the_user_declares_resizes():
    given = Release(
        model=nn.Flatten, example=lambda: torch.rand(2, 1, 4, 4), resize=lambda images, side: images[..., :side, :side]
    )  # fmt: skip
    images = torch.rand(2, 1, 4, 4)
    assert torch.equal(given.at(2).module()(images), images[..., :2, :2].flatten(1))
