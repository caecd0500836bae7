"""One raw record through both ways (ledger A-079)."""

import io

import numpy as np
import pytest
from PIL import Image

from netdyno.audits import serving_preprocess as room
from netdyno.audits.serving_preprocess import differing, serving_preprocess


@pytest.fixture(scope="module")
def files():
    """Encoded colour pictures, as they lie on a disk."""
    from netdyno.audits._specimens import specimen

    found = []
    for image in specimen("images").train.x[:12]:
        file = io.BytesIO()
        Image.fromarray(np.rint(255 * image).astype(np.uint8).transpose(1, 2, 0)).save(file, "PNG")
        found.append(file.getvalue())
    return found


def decoded(file, how=Image.Resampling.BILINEAR):
    picture = Image.open(io.BytesIO(file)).convert("RGB").resize((24, 24), how)
    return np.asarray(picture, dtype=np.float32).transpose(2, 0, 1) / 255


def normalised(image, mean=0.45, deviation=0.22):
    return (image - mean) / deviation


def test_the_same_way_is_silent(files):
    found = differing(lambda one: normalised(decoded(one)), lambda one: normalised(decoded(one)), files)
    assert not found.kinds
    assert found.worst == 0.0


def test_a_swapped_channel_is_detected_with_the_worst_difference(files):
    found = differing(decoded, lambda one: decoded(one)[::-1], files)
    assert found.kinds == ("the channels are reversed (RGB and BGR)",)
    assert found.worst == pytest.approx(max(np.abs(decoded(one) - decoded(one)[::-1]).max() for one in files))


@pytest.mark.parametrize(
    ("serving", "kinds"),
    [
        (lambda one: normalised(decoded(one)), ("the normalisation is another",)),
        (lambda one: decoded(one) * 255, ("the range is another",)),
        (lambda one: decoded(one, Image.Resampling.NEAREST), ("it is resized or cropped in another way",)),
        (lambda one: decoded(one).transpose(1, 2, 0), ("the channels come last",)),
        (lambda one: decoded(one)[:, :20, :20], ("it is resized to another size",)),
        (
            lambda one: normalised(decoded(one)[::-1]),
            ("the channels are reversed (RGB and BGR)", "the normalisation is another"),
        ),
    ],
)
def test_ways_to_differ_are_told_apart(files, serving, kinds):
    assert differing(decoded, serving, files).kinds == kinds


def test_what_has_nothing_simple_in_common_is_said_so(files):
    chance = np.random.default_rng(0)
    assert differing(decoded, lambda one: chance.random((3, 24, 24)), files).kinds == (
        "the values have nothing simple in common",
    )


def test_rounding_is_no_difference():
    rounded = room._served(lambda one: np.rint(one / 255 * 1000) / 1000)
    assert serving_preprocess(rounded) is None
