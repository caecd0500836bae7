"""The demo: Pillow's transform and the batched one are the same."""

import math

import pytest
import torch

from netdyno.targets.garage import digits


@pytest.mark.parametrize(
    ("turn", "right", "down", "light"),
    [
        (0.0, 0.0, 0.0, 1.0),
        (0.0, 2.0, 0.0, 1.0),
        (0.0, 0.0, -1.5, 1.0),
        (15.0, 0.0, 0.0, 1.0),
        (-9.0, 2.25, -1.75, 0.8),
        (7.0, -3.0, 3.0, 1.3),
    ],
)
def test_a_batch_is_moved_as_pillow_moves_an_image(turn, right, down, light):
    images = torch.stack([digits.train()[index][0] for index in (0, 11, 700)])
    # Away from the border: there Pillow repeats the last pixel, and the batch fades to black.
    images[:, :, :8] = images[:, :, -8:] = 0
    images[:, :, :, :8] = images[:, :, :, -8:] = 0
    radians = math.radians(turn)
    singly = torch.stack([digits.moved(image, radians, right, down, light) for image in images])
    number = [torch.full((3,), value) for value in (radians, right, down, light)]
    assert torch.allclose(singly, digits.moved_batch(images, *number), atol=2e-3)


def test_both_draw_from_the_same_ranges():
    torch.manual_seed(0)
    image = torch.zeros(1, digits.SIDE, digits.SIDE)
    image[0, 14:18, 14:18] = 0.5  # a square in the middle: where it went and how bright it is can be read off
    singly = torch.stack([digits.augment((image, 0))[0] for _ in range(2000)])
    together, labels = digits.batch_augment((image.expand(2000, 1, -1, -1), torch.zeros(2000, dtype=torch.int64)))
    assert labels.shape == (2000,)
    for mine, yours in zip(_facts(singly), _facts(together), strict=True):
        # 2,000 draws of a uniform number: ends within a twentieth of its range, mean within four standard errors.
        span = mine.max() - mine.min()
        assert abs(mine.max() - yours.max()) < span / 20
        assert abs(mine.min() - yours.min()) < span / 20
        assert abs(mine.mean() - yours.mean()) < span / 20


def _facts(images):
    """Light, and the middle of the square to the right and down."""
    mass = images.sum((1, 2, 3))
    pixels = torch.arange(digits.SIDE, dtype=torch.float32)
    return mass, (images.sum((1, 2)) @ pixels) / mass, (images.sum((1, 3)) @ pixels) / mass


def test_decoding_gives_the_same_every_time():
    scans = digits.val()
    assert torch.equal(scans[5][0], scans[5][0])
    assert scans[5][0].shape == (1, digits.SIDE, digits.SIDE)
    assert 0 <= scans[5][0].min() < scans[5][0].max() <= 1


def test_no_augmentation_leaves_its_mark_on_the_decoded_image():
    image, label = digits.train()[0]
    before = image.clone()
    digits.augment((image, label))
    assert torch.equal(image, before)
