"""What a person would write does what the knob does."""

import pytest
import torch

from knobs.specimens import images, pictured, setup_for, small_net
from netdyno.knobs.activation import Activation
from netdyno.knobs.augmentation import Augmentation
from netdyno.knobs.batchnorm_momentum import BatchnormMomentum
from netdyno.knobs.class_weights import ClassWeights
from netdyno.knobs.cut_mix import CutMix
from netdyno.knobs.cutout import Cutout
from netdyno.knobs.distillation import Distillation
from netdyno.knobs.focal_loss import FocalLoss
from netdyno.knobs.initialisation import Initialisation
from netdyno.knobs.label_smoothing import LabelSmoothing
from netdyno.knobs.mixup import Mixup
from netdyno.knobs.normalisation import Normalisation
from netdyno.knobs.residual import Residual
from netdyno.knobs.weighted_sampler import WeightedSampler

UNEVEN = [60, 30, 6]


def ran(knob, **names):
    """The names after the code of a knob."""
    pixels, targets = images(shares=UNEVEN)
    names = {
        "torch": torch, "targets": targets, "target": targets, "images": pixels, "inputs": pixels, "classes": 3,
        "output": torch.randn(96, 3, generator=torch.Generator().manual_seed(0)), "fill": 0.0,
    } | names  # fmt: skip
    exec(knob.code(), names)
    return names


@pytest.mark.parametrize(
    "knob",
    [
        FocalLoss(2.0), FocalLoss(2.0, balanced=True), LabelSmoothing(0.1), ClassWeights(0.5), ClassWeights(1.0),
    ],
    ids=str,
)  # fmt: skip
def test_losses_are_equal(knob):
    setup = setup_for(pictured(train=lambda: images(shares=UNEVEN)))
    names = ran(knob)
    turned = knob.turned(setup).loss(names["output"], (None, names["target"]))
    assert float(names["loss"]) == pytest.approx(float(turned), rel=1e-5)


def test_distillation_is_equal():
    teacher = small_net().eval()
    setup = setup_for(pictured(), teacher=teacher)
    pixels, targets = images(shares=UNEVEN)
    own = torch.tensor(0.7)
    names = ran(Distillation(0.3, 4.0), teacher=teacher, loss=own)
    setup = setup_for(pictured(), teacher=teacher, loss=lambda output, batch: own)
    turned = Distillation(0.3, 4.0).turned(setup).loss(names["output"], (pixels, targets))
    assert float(names["loss"]) == pytest.approx(float(turned), rel=1e-5)


def test_the_samplers_draw_with_equal_weights():
    sampler = WeightedSampler(0.5).turned(setup_for(pictured(train=lambda: images(shares=UNEVEN)))).sampler
    names = ran(WeightedSampler(0.5), train=list(range(96)), batch_size=8)
    assert torch.allclose(
        names["sampler"].weights / names["sampler"].weights.sum(), sampler.weights / sampler.weights.sum()
    )


@pytest.mark.parametrize("knob", [CutMix(1.0), Mixup(0.4)], ids=str)
@pytest.mark.parametrize("seed", range(20))
def test_mixed_labels_are_shares(knob, seed):
    torch.manual_seed(seed)
    names = ran(knob)
    assert names["target"].shape == (96, 3)
    assert torch.allclose(names["target"].sum(1), torch.ones(96))


@pytest.mark.parametrize("seed", range(20))
def test_a_patch_is_weighed_by_the_pixels_it_has(seed):
    torch.manual_seed(seed)
    values = torch.arange(96.0)[:, None, None, None].expand(96, 1, 12, 12).clone()
    names = ran(CutMix(1.0), images=values)
    kept = (names["images"] == values).float().mean((1, 2, 3))
    moved = names["order"] != torch.arange(96)
    assert torch.allclose(kept[moved], torch.full((int(moved.sum()),), names["kept"]), atol=1e-6)


def test_a_square_is_hidden():
    torch.manual_seed(0)
    hidden = (ran(Cutout(0.5))["images"] == 0).float().mean()
    assert 0.05 < float(hidden) <= 0.25


def test_weights_are_drawn_as_the_knob_draws_them():
    for scheme in ("he", "xavier", "orthogonal"):
        torch.manual_seed(0)
        by_hand = ran(Initialisation(scheme), model=small_net())["model"]
        torch.manual_seed(0)
        by_knob = Initialisation(scheme).turned(setup_for(pictured())).model()
        assert float(by_hand[3].weight.detach().std()) == pytest.approx(
            float(by_knob[3].weight.detach().std()), rel=0.1
        )


def test_momenta_are_set():
    model = ran(BatchnormMomentum(0.01), model=small_net())["model"]
    assert model[1].momentum == 0.01


@pytest.mark.parametrize(
    "knob",
    [
        *(Residual(form) for form in ("v1", "pre-activation", "after-relu")),
        *(Normalisation(kind) for kind in ("group", "layer", "batch")),
        *(Augmentation(kind) for kind in ("affine", "flip", "off")),
        Activation("GELU"),
    ],
    ids=str,
)
def test_the_rest_is_python(knob):
    compile(knob.code(), "knob", "exec")
