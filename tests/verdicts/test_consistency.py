import pytest

from netdyno.records.trial import Change
from netdyno.verdicts.consistency import inconsistencies


def knob(name, **settings):
    return Change(id=name, settings=settings)


def test_focal_loss_with_accuracy_as_target_is_flagged():
    (found,) = inconsistencies(metric="accuracy", loss="FocalLoss")
    assert "accuracy counts every sample alike" in found.says
    assert "average precision" in found.instead
    (again,) = inconsistencies(metric="Accuracy", recipe=[knob("focal-loss", gamma=2.0)])
    assert again.says == found.says


@pytest.mark.parametrize("name", ["class-weights", "weighted-sampler"])
def test_evened_classes_with_accuracy_as_target_are_flagged(name):
    (found,) = inconsistencies(metric="accuracy", recipe=[knob(name, power=1.0)])
    assert "balanced accuracy" in found.instead


def test_smoothed_labels_with_a_calibrated_metric_are_flagged():
    assert inconsistencies(metric="ECE", recipe=[knob("label-smoothing", smoothing=0.1)])


def test_a_median_is_not_a_mean():
    assert inconsistencies(metric="rmse", loss="L1Loss")
    assert inconsistencies(metric="mae", loss="MSELoss")


@pytest.mark.parametrize(
    ("metric", "loss", "recipe"),
    [
        ("accuracy", "CrossEntropyLoss", ()),
        ("accuracy", "torch.nn.functional.cross_entropy", (knob("label-smoothing", smoothing=0.1),)),
        ("average-precision", "focal", ()),
        ("macro-f1", "cross-entropy", (knob("focal-loss", gamma=2.0), knob("class-weights", power=1.0))),
        ("accuracy", "cross-entropy", (knob("focal-loss", gamma=0.0), knob("class-weights", power=0.0))),
        ("accuracy", "cross-entropy", (knob("learning-rate", factor=3.0), knob("cut-mix", share=0.5))),
        ("rmse", "MSELoss", ()),
        ("our-own-score", "our_own_loss", ()),
    ],
)
def test_what_goes_together_or_is_not_known_is_left_alone(metric, loss, recipe):
    assert inconsistencies(metric=metric, loss=loss, recipe=recipe) == ()
