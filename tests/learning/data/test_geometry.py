"""Boxes follow their pixels (ledger A-083)."""

import numpy as np
import pytest
from scipy import ndimage

from netdyno.learning.data.geometry import followed


def turned(image, boxes, *, degrees, with_boxes=True):
    """Turns about the middle; a box becomes the one around its turned corners."""
    after = ndimage.rotate(image, degrees, reshape=False, order=1)
    if not with_boxes:
        return after, boxes
    angle, middle = np.deg2rad(degrees), (image.shape[0] - 1) / 2
    found = []
    for left, top, right, bottom in boxes:
        x = np.array((left, right, left, right)) - 0.5 - middle
        y = np.array((top, top, bottom, bottom)) - 0.5 - middle
        across, down = np.cos(angle) * x + np.sin(angle) * y, -np.sin(angle) * x + np.cos(angle) * y
        edges = (across.min(), down.min(), across.max(), down.max())
        found.append(tuple(edge + middle + 0.5 for edge in edges))
    return after, found


def mirrored(image, boxes, *, with_boxes=True):
    side = image.shape[1]
    moved = [(side - right, top, side - left, bottom) for left, top, right, bottom in boxes] if with_boxes else boxes
    return image[:, ::-1], moved


@pytest.mark.parametrize("degrees", [-25, 10, 90])
def test_a_turn_without_its_boxes_is_flagged_and_one_with_them_is_not(degrees):
    together = followed(lambda image, boxes: turned(image, boxes, degrees=degrees))
    assert together.holds, together
    assert together.measured
    alone = followed(lambda image, boxes: turned(image, boxes, degrees=degrees, with_boxes=False))
    assert not alone.holds
    assert "do not follow" in alone.says


def test_a_mirror_without_its_boxes_is_off_by_where_the_box_is():
    assert followed(mirrored).error == 0.0
    alone = followed(lambda image, boxes: mirrored(image, boxes, with_boxes=False), side=90, boxes=[(10, 20, 30, 40)])
    assert alone.error == 50.0
    assert alone.worst == (10, 20, 30, 40)


def test_markers_that_leave_the_picture_are_not_measured():
    gone = followed(lambda image, boxes: (np.zeros_like(image), boxes))
    assert gone.measured == 0
    assert "nothing could be measured" in gone.says
