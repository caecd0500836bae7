import pytest
import torch

from knobs.specimens import images, numbered, pictured, setup_for, steps
from netdyno.knobs._mixing import patch
from netdyno.knobs.augmentation import Augmentation, Varied
from netdyno.knobs.cut_mix import CutMix, Mixed
from netdyno.knobs.cutout import Cutout, Hidden
from netdyno.knobs.mixup import Blended, Mixup


def test_a_patch_over_the_border_is_cut_off_there():
    for seed in range(200):
        torch.manual_seed(seed)
        one = patch(10, 14, 0.6)
        assert 0 <= one.top < one.bottom <= 10
        assert 0 <= one.left < one.right <= 14


@pytest.mark.parametrize("seed", range(50))
def test_the_weight_of_a_label_is_the_exact_share_of_pixels_that_were_kept(seed):
    torch.manual_seed(seed)
    # Image i has the value i and the class i: the pixels themselves tell what was pasted.
    pixels = torch.arange(6.0)[:, None, None, None].expand(6, 1, 11, 13).clone()
    mixed, shares = Mixed(classes=6, share=1.0)((pixels, torch.arange(6)))
    for kind in range(6):
        found = (mixed == kind).float().mean((1, 2, 3))
        assert torch.allclose(shares[:, kind], found, atol=1e-6)


def test_border_clipping_was_met():
    kept, drawn = [], []
    for seed in range(50):
        torch.manual_seed(seed)
        one = patch(11, 13, 0.8)
        kept.append(one.area)
        drawn.append(round(11 * 0.8) * round(13 * 0.8))
    assert any(area < whole for area, whole in zip(kept, drawn, strict=True))


def test_shares_of_labels_add_up_to_one_and_images_given_stay_as_they_are():
    pixels, labels = images()
    before = pixels.clone()
    _, shares = Mixed(classes=3, share=1.0)((pixels, labels))
    assert torch.allclose(shares.sum(1), torch.ones(len(labels)))
    assert torch.equal(pixels, before)


def test_the_same_seed_mixes_alike():
    batch = images()
    torch.manual_seed(3)
    first = Mixed(classes=3, share=1.0)(batch)
    torch.manual_seed(3)
    assert torch.equal(first[0], Mixed(classes=3, share=1.0)(batch)[0])


def test_only_a_share_of_the_batches_is_mixed():
    torch.manual_seed(0)
    batch = images()
    untouched = sum(Mixed(classes=3, share=0.5)(batch) is batch for _ in range(200))
    assert 70 <= untouched <= 130  # four deviations of 200 tosses


def test_a_hidden_square_has_the_mean_colour_and_the_rest_is_untouched():
    torch.manual_seed(0)
    pixels, labels = images()
    hidden, same = Hidden(0.5)((pixels, labels))
    changed = hidden != pixels
    assert same is labels
    assert 0.05 < float(changed.float().mean()) <= 0.25 + 1e-6  # a quarter of the area at most, less at the border
    grey = pixels.mean((0, 2, 3))
    assert torch.allclose(hidden[:, 0][changed[:, 0]], grey[0])


def test_blends_keep_inputs_and_targets_in_step():
    torch.manual_seed(1)
    inputs = torch.eye(4)
    mixed, shares = Blended(classes=4, alpha=1.0)((inputs, torch.arange(4)))
    assert torch.allclose(mixed, shares)


def test_mixing_twice_still_gives_shares():
    setup = CutMix(1.0).turned(Mixup(0.4).turned(setup_for(pictured())))
    torch.manual_seed(0)
    batch = images()
    for transform in setup.mix:
        batch = transform(batch)
    assert torch.allclose(batch[1].sum(1), torch.ones(len(batch[1])))


@pytest.mark.parametrize("knob", [CutMix(1.0), Mixup(), Cutout(), Augmentation("flip"), Augmentation("affine")])
def test_training_on_changed_batches_goes_down(knob):
    losses, _ = steps(knob.turned(setup_for(pictured())), updates=24)
    assert sum(losses[-4:]) < sum(losses[:4])


def test_what_cannot_be_mixed_is_refused_in_words():
    rows = setup_for(numbered())
    assert "no images" in CutMix().refuses(rows)
    assert "not class numbers" in Mixup().refuses(rows)
    words = pictured(
        model=lambda: torch.nn.Embedding(9, 3), train=lambda: (torch.ones(64).long(), torch.ones(64).long())
    )
    assert "whole numbers" in Mixup().refuses(setup_for(words))
    small = pictured(train=lambda: (torch.zeros(32, 2, 4, 4), torch.arange(32) % 3))
    assert "too small" in Cutout().refuses(setup_for(small))


def test_declared_augmentation_is_switched_off_or_replaced():
    setup = setup_for(pictured(augment=lambda sample: sample))
    assert Augmentation("off").refuses(setup) is None
    assert not Augmentation("off").turned(setup).augment
    assert "declares no augmentation" in Augmentation("off").refuses(setup_for(pictured()))
    assert Augmentation("flip").turned(setup).mix == (Varied("flip"),)


def test_varied_images_keep_shape_and_label():
    torch.manual_seed(0)
    pixels, labels = images()
    for kind in ("affine", "flip"):
        varied, same = Varied(kind)((pixels, labels))
        assert varied.shape == pixels.shape
        assert same is labels
        assert not torch.equal(varied, pixels)
