import pytest
import torch

from knobs.specimens import images, pictured, setup_for, small_net, steps
from netdyno.knobs._losses import ClassLoss
from netdyno.knobs.class_weights import ClassWeights
from netdyno.knobs.cut_mix import CutMix
from netdyno.knobs.direction_distillation import DirectionDistillation
from netdyno.knobs.distillation import Distillation
from netdyno.knobs.focal_loss import FocalLoss
from netdyno.knobs.label_smoothing import LabelSmoothing
from netdyno.knobs.weighted_sampler import WeightedSampler


def uneven():
    return setup_for(pictured(train=lambda: images(shares=[60, 30, 6])))


def teacher():
    torch.manual_seed(9)
    return small_net()


def taught(**changes):
    return setup_for(pictured(), teacher=teacher(), **changes)


def test_focus_and_smoothing_go_together():
    setup = LabelSmoothing(0.1).turned(FocalLoss(2.0).turned(setup_for(pictured())))
    assert (setup.loss.gamma, setup.loss.smoothing) == (2.0, 0.1)


def test_training_under_a_changed_loss_goes_down():
    for knob in (FocalLoss(), LabelSmoothing(), ClassWeights(), FocalLoss(balanced=True)):
        losses, _ = steps(knob.turned(uneven()), updates=12)
        assert losses[-1] < losses[0]


def test_smoothing_says_what_its_loss_must_be_read_against():
    assert LabelSmoothing(0.1).floor(setup_for(pictured())) == pytest.approx(0.2908, abs=1e-3)


def test_even_classes_are_not_weighed():
    setup = setup_for(pictured())
    assert "only" in ClassWeights().refuses(setup)
    assert "only" in WeightedSampler().refuses(setup)
    assert ClassWeights().refuses(uneven()) is None
    assert FocalLoss(2.0, balanced=True) not in FocalLoss().settings(setup)
    assert FocalLoss(2.0, balanced=True) in FocalLoss().settings(uneven())


def test_weights_and_sampler_do_not_make_up_for_the_same_twice():
    assert "sampler" in ClassWeights().refuses(WeightedSampler().turned(uneven()))
    assert "already" in WeightedSampler().refuses(ClassWeights().turned(uneven()))


def test_a_weighted_sampler_draws_all_classes_alike():
    setup = WeightedSampler(1.0).turned(uneven())
    torch.manual_seed(0)
    labels = images(shares=[60, 30, 6])[1]
    drawn = torch.cat([labels[list(setup.sampler)] for _ in range(20)])
    shares = torch.bincount(drawn) / len(drawn)
    # 1920 draws: three deviations of a third are 0.032.
    assert torch.allclose(shares, torch.full((3,), 1 / 3), atol=0.035)


def test_distillation_needs_a_teacher():
    for knob in (Distillation(), DirectionDistillation()):
        assert "teacher" in knob.refuses(setup_for(pictured()))
        assert knob.refuses(taught()) is None


def test_temperatures_from_one_to_ten_are_swept():
    temperatures = {one.temperature for one in Distillation().settings(taught())}
    assert {1.0, 4.0, 10.0} <= temperatures


def test_the_teachers_share_is_in_the_loss_and_the_teacher_stays_as_he_is():
    setup = taught()
    before = {name: value.clone() for name, value in setup.teacher.state_dict().items()}
    losses, _ = steps(Distillation(0.5, 4.0).turned(setup), updates=8)
    assert losses[-1] < losses[0]
    assert losses[0] != steps(setup, updates=1)[0][0]
    assert all(torch.equal(value, before[name]) for name, value in setup.teacher.state_dict().items())


def test_a_student_equal_to_the_teacher_points_where_he_points():
    def same():
        torch.manual_seed(9)
        return small_net().eval()

    setup = setup_for(pictured(), teacher=same(), model=same)
    turned = DirectionDistillation(1.0).turned(setup)
    model, (inputs, targets) = turned.model(), images()
    own = setup.loss(model(inputs[:16]), (inputs[:16], targets[:16]))
    both = turned.loss(model(inputs[:16]), (inputs[:16], targets[:16]))
    assert float(both - own) == pytest.approx(0.0, abs=1e-5)


def test_the_gradient_of_directions_reaches_the_first_layer():
    turned, plain = (knob.turned(taught()) for knob in (DirectionDistillation(1.0), DirectionDistillation(1e-9)))
    _, moved = steps(turned, updates=1)
    _, unmoved = steps(plain, updates=1)
    first, other = next(moved.parameters()), next(unmoved.parameters())
    assert torch.isfinite(first).all()
    assert not torch.equal(first, other)


def test_directions_come_nearer_in_training():
    setup = taught()
    turned = DirectionDistillation(1.0).turned(setup)
    _, model = steps(turned, updates=30)
    _, fresh = steps(turned, updates=0)
    inputs, targets = images()
    batch = (inputs[:48], targets[:48])

    def apart(module):
        module.eval()
        output = module(batch[0])
        return float(turned.loss(output, batch) - setup.loss(output, batch))

    learned = apart(model)
    assert learned < apart(fresh)


def test_layers_that_work_in_place_are_not_in_the_way():
    def net():
        return torch.nn.Sequential(
            torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(inplace=True),
            torch.nn.Flatten(), torch.nn.Linear(400, 3),
        )  # fmt: skip

    losses, _ = steps(DirectionDistillation(1.0).turned(setup_for(pictured(model=net), teacher=net())), updates=3)
    assert all(loss == loss for loss in losses)


def test_a_teacher_learns_from_mixed_labels_too():
    setup = Distillation().turned(CutMix(1.0).turned(taught()))
    losses, _ = steps(setup, updates=8)
    assert losses[-1] < losses[0]


def test_the_loss_that_was_there_stays_as_it_was():
    setup = setup_for(pictured())
    before = setup.loss
    FocalLoss().turned(setup)
    assert setup.loss is before
    assert not isinstance(setup.loss, ClassLoss)
