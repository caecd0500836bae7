"""Gradients written by hand are compared with slopes; what is meant to be something else is told apart."""

import pytest

torch = pytest.importorskip("torch")

from netdyno.aboard.vitals.customs import compared  # noqa: E402


def function(forward, backward, *, saves=True):
    """A custom function of one input."""

    class Written(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if saves:
                ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, grad):
            return backward(grad, *ctx.saved_tensors)

    return Written


def asked(cls, *shape):
    given = torch.randn(*(shape or (8, 6)), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return compared(cls, (given.requires_grad_(),))


def swish(x):
    return x * torch.sigmoid(x)


def slope_of_swish(grad, x):
    s = torch.sigmoid(x)
    return grad * s * (1 + x * (1 - s))


def test_a_right_gradient_is_the_slope():
    told = asked(function(swish, slope_of_swish))
    assert told["tested"] >= 8
    assert told["wrong"] == told["flat"] == 0


def test_a_forgotten_term_is_seen():
    told = asked(function(swish, lambda grad, x: grad * torch.sigmoid(x)))
    assert told["wrong"] >= 8
    assert told["flat"] == 0
    assert not told["passes_on"]


def test_a_factor_is_told_as_one():
    told = asked(function(swish, lambda grad, x: 2 * slope_of_swish(grad, x)))
    assert told["ratio_low"] == pytest.approx(2.0, rel=1e-4)
    assert told["ratio_high"] == pytest.approx(2.0, rel=1e-4)


def test_a_loss_that_takes_no_notice_of_what_comes_from_behind_is_right_as_it_is_used():
    told = asked(function(lambda x: (x**2).sum(), lambda grad, x: 2 * x))
    assert told["wrong"] == 0


def test_a_straight_through_estimator_is_written_for_its_gradient():
    told = asked(function(torch.sign, lambda grad, x: grad * (x.abs() <= 1)))
    assert told["flat"] > 0


def test_a_reversed_gradient_passes_on_what_it_is_given():
    assert asked(function(lambda x: x.view_as(x), lambda grad, x: -0.1 * grad))["passes_on"]


def test_a_kink_is_no_place_to_compare():
    cls = function(torch.relu, lambda grad, x: grad * (x > 0))
    given = torch.zeros(8, 6, dtype=torch.float64).requires_grad_()
    told = compared(cls, (given,))
    assert told is None or told["wrong"] == 0


def test_a_dropout_by_hand_is_asked_under_the_same_chance():
    class Dropping(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            mask = (torch.rand_like(x) > 0.3).double()
            ctx.save_for_backward(mask)
            return x**2 * mask

        @staticmethod
        def backward(ctx, grad):
            (mask,) = ctx.saved_tensors
            return grad * mask

    told = asked(Dropping)
    assert told["wrong"] > 0  # 2x is missing, which only a mask that stays the same can show


def test_what_computes_in_single_precision_is_not_judged():
    assert asked(function(lambda x: swish(x.float()), slope_of_swish)) is None


def test_an_input_without_a_gradient_is_not_judged():
    class Weighing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(weight)
            return x.sin() * weight

        @staticmethod
        def backward(ctx, grad):
            (weight,) = ctx.saved_tensors
            return grad * weight, None

    x, weight = (torch.full((4, 4), 0.3, dtype=torch.float64).requires_grad_() for _ in range(2))
    told = compared(Weighing, (x, weight))
    assert told["tested"] == told["wrong"]  # cos is missing in the first one
    assert told["ratio"] == pytest.approx(1 / 0.9553, rel=1e-3)


def test_a_function_that_writes_into_its_input_leaves_ours_alone():
    class Doubling(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    given = torch.ones(3, 3, dtype=torch.float64).requires_grad_()
    told = compared(Doubling, (given,))
    assert told["wrong"] == 0
    assert bool((given == 1).all())
