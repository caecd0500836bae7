import math

import pytest
import torch
from torch.nn import functional as F

from knobs.specimens import images, numbered, pictured, setup_for
from netdyno.errors import NetdynoError
from netdyno.knobs._losses import (
    ClassLoss,
    class_weights,
    distillation,
    focal,
    gradient_directions,
    labels,
    no_classes,
    smoothing_floor,
    soft_divergence,
)


def logits(rows=32, classes=5, *, seed=0, dtype=torch.float64):
    return 2 * torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def targets(rows=32, classes=5):
    return torch.arange(rows) % classes


def test_focal_loss_without_focus_is_cross_entropy():
    found = focal(logits(), targets(), gamma=0.0, alpha=1.0)
    assert float(found) == pytest.approx(float(F.cross_entropy(logits(), targets())), abs=1e-6)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0, 5.0])
def test_the_slope_of_focal_loss_is_its_own(gamma):
    some = logits(6, 4).requires_grad_()
    alpha = torch.tensor([0.25, 0.75, 1.0, 2.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: focal(x, targets(6, 4), gamma=gamma, alpha=alpha), some)


def test_a_sample_answered_with_nine_tenths_keeps_a_hundredth_of_its_loss():
    sure = torch.tensor([[math.log(9.0), 0.0]], dtype=torch.float64)
    target = torch.tensor([0])
    assert float(focal(sure, target, gamma=2.0) / F.cross_entropy(sure, target)) == pytest.approx(0.01, rel=1e-9)


def test_alpha_differs_by_class():
    alpha = torch.tensor([0.75, 0.25])
    even = torch.zeros(1, 2)
    common, rare = (float(focal(even, torch.tensor([kind]), alpha=alpha)) for kind in (0, 1))
    assert common == pytest.approx(3 * rare)


def test_a_sure_answer_has_a_finite_slope():
    sure = torch.tensor([[80.0, 0.0], [-80.0, 0.0]], requires_grad=True)
    focal(sure, torch.tensor([0, 0]), gamma=0.5).backward()
    assert torch.isfinite(sure.grad).all()


def test_focal_loss_takes_dense_targets_and_shares():
    dense = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    answers = torch.randint(3, (2, 4, 4), generator=torch.Generator().manual_seed(1))
    by_number = focal(dense, answers, alpha=torch.tensor([1.0, 2.0, 3.0]))
    by_share = focal(dense, F.one_hot(answers, 3).movedim(-1, 1).float(), alpha=torch.tensor([1.0, 2.0, 3.0]))
    assert float(by_number) == pytest.approx(float(by_share), rel=1e-6)


def test_smoothed_labels_follow_the_formula():
    log_p = F.log_softmax(logits(), 1)
    own = -log_p.gather(1, targets()[:, None]).mean()
    everyone = -log_p.mean(1).mean()
    found = ClassLoss(smoothing=0.1)(logits(), (None, targets()))
    assert float(found) == pytest.approx(float(0.9 * own + 0.1 * everyone), rel=1e-12)


def test_the_floor_of_smoothing_is_half_a_nat_for_ten_classes_and_one_for_a_thousand():
    assert smoothing_floor(10, 0.1) == pytest.approx(0.50, abs=0.005)
    assert smoothing_floor(1000, 0.1) == pytest.approx(1.01, abs=0.005)
    assert smoothing_floor(10, 0.0) == 0.0


def test_the_floor_is_what_the_best_answer_pays():
    best = torch.full((1, 10), 0.01, dtype=torch.float64)
    best[0, 3] = 0.91
    paid = F.cross_entropy(best.log(), torch.tensor([3]), label_smoothing=0.1)
    assert float(paid) == pytest.approx(smoothing_floor(10, 0.1), rel=1e-12)


def test_hard_labels_and_their_shares_cost_the_same():
    for loss in (ClassLoss(), ClassLoss(smoothing=0.1), ClassLoss(gamma=2.0), ClassLoss(gamma=2.0, smoothing=0.1)):
        hard = loss(logits(), (None, targets()))
        soft = loss(logits(), (None, F.one_hot(targets(), 5).double()))
        assert float(hard) == pytest.approx(float(soft), rel=1e-12)


def test_distillation_is_the_sum_it_says():
    student, teacher, temperature = logits(), logits(seed=1), 4.0
    p = F.softmax(teacher / temperature, 1)
    by_hand = (p * (p.log() - F.log_softmax(student / temperature, 1))).sum(1).mean() * temperature**2
    found = distillation(student, teacher, targets(), alpha=0.3, temperature=temperature)
    assert float(found) == pytest.approx(float(0.3 * by_hand + 0.7 * F.cross_entropy(student, targets())), rel=1e-12)


def test_the_teacher_himself_has_nothing_to_learn():
    assert float(soft_divergence(logits(), logits(), temperature=4.0)) == pytest.approx(0.0, abs=1e-12)


def test_divergence_from_another_teacher_is_never_negative():
    assert all(float(soft_divergence(logits(seed=seed), logits(seed=seed + 1))) > 0 for seed in range(20))


def test_probabilities_are_refused_where_logits_are_meant():
    p = F.softmax(logits(), 1)
    # What torch answers when it is given probabilities: a "divergence" below 0.
    assert F.kl_div(p, F.softmax(logits(seed=1), 1), reduction="batchmean") < 0
    with pytest.raises(NetdynoError, match="`student` must be logits"):
        soft_divergence(p, logits(seed=1))
    with pytest.raises(NetdynoError, match="`teacher` must be logits"):
        distillation(logits(), p, targets())


def test_softening_does_not_shrink_the_gradient():
    def slope(temperature):
        student = (0.01 * logits()).requires_grad_()
        soft_divergence(student, 0.01 * logits(seed=1), temperature=temperature).backward()
        return float(student.grad.norm())

    # For small logits the gradient is the same at every temperature; without T² it would be 16 times smaller at 4.
    assert slope(4.0) == pytest.approx(slope(1.0), rel=0.05)


def test_gradients_that_point_one_way_cost_nothing():
    own = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0))
    assert float(gradient_directions(own, 7 * own)) == pytest.approx(0.0, abs=1e-6)
    assert float(gradient_directions(own, -own)) == pytest.approx(2.0, abs=1e-6)


def test_gradients_of_other_shapes_are_refused():
    with pytest.raises(NetdynoError, match="directions"):
        gradient_directions(torch.ones(2, 3), torch.ones(2, 4))


def test_cross_entropy_by_another_name_can_be_replaced():
    declared = pictured(loss=lambda output, target: -F.log_softmax(output, 1).gather(1, target[:, None]).mean())
    assert no_classes(setup_for(declared)) is None


def test_a_loss_of_the_users_own_is_left_alone():
    weighted = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))
    assert "a loss of its own" in no_classes(setup_for(pictured(loss=weighted)))
    assert "not class numbers" in no_classes(setup_for(numbered()))


def test_weights_of_classes_are_one_on_average_over_the_samples():
    setup = setup_for(pictured(train=lambda: images(shares=[60, 30, 6])))
    weights = class_weights(setup, 1.0)
    assert float(weights[labels(setup)].mean()) == pytest.approx(1.0)
    assert float(weights[2] / weights[0]) == pytest.approx(10.0)
    assert float(class_weights(setup, 0.5)[2] / class_weights(setup, 0.5)[0]) == pytest.approx(math.sqrt(10))


def test_labels_are_read_from_any_data_set():
    pixels, kinds = images()
    setup = setup_for(pictured(train=lambda: [(image, int(kind)) for image, kind in zip(pixels, kinds, strict=True)]))
    assert labels(setup).tolist() == kinds.tolist()
