"""What knobs of the loss share: one loss over classes that all of them can change, and what it has to know of the data.

The plain functions are open to users in `netdyno.learning.losses`.
"""

import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import IterableDataset, TensorDataset

from netdyno.errors import NetdynoError
from netdyno.knobs._base import Setup
from netdyno.knobs._layers import a_batch, output_of
from netdyno.targets.samples import kept_randomness
from netdyno.targets.subject import Batch, target_of
from netdyno.targets.workload import Workload

# Two losses of the same numbers may add up in another order.
ROUNDING = 1e-5
# With counts as 3 to 2 weights of classes would be 0.8 and 1.2: below that there is nothing to make up for.
UNEVEN = 1.5


def focal(logits: Tensor, target: Tensor, *, gamma: float = 2.0, alpha: Tensor | float = 1.0) -> Tensor:
    """The focal loss, mean over samples: -alpha_t * (1 - p_t)^gamma * log(p_t), classes along dimension 1 (Lin 2017).

    `target` are class numbers, or shares of classes of the shape of `logits`. `alpha` is one weight, or one per class.
    With gamma 0 and alpha 1 it is the cross-entropy.

    >>> round(focal(torch.tensor([[2.197225, 0.0]]), torch.tensor([0])).item() / 0.1053605, 4)  # p_t is 0.9
    0.01
    """
    log_p = F.log_softmax(logits, 1)
    shares = shares_of(target, logits)
    weights = _along_classes(alpha, logits)
    # (1 - p) of a sure answer is 0, and the slope of 0 ** gamma below 1 is endless; -expm1 keeps what is left of it.
    missed = (-torch.expm1(log_p)).clamp_min(torch.finfo(log_p.dtype).tiny)
    return -(shares * weights * missed**gamma * log_p).sum(1).mean()


def distillation(
    student: Tensor, teacher: Tensor, target: Tensor, *, alpha: float = 0.5, temperature: float = 4.0
) -> Tensor:
    """alpha * T² * KL(teacher to student, both softened by T) + (1 - alpha) * cross-entropy (Hinton 2015).

    Student and teacher are logits, classes along dimension 1. Raises NetdynoError for probabilities.
    """
    return alpha * soft_divergence(student, teacher, temperature=temperature) + (1 - alpha) * F.cross_entropy(
        student, target
    )


def soft_divergence(student: Tensor, teacher: Tensor, *, temperature: float = 4.0) -> Tensor:
    """T² * KL(teacher to student) of logits softened by T, mean over samples, never below 0.

    Softening divides the gradient by T², so T² gives it the weight it would have without.
    """
    for name, logits in (("student", student), ("teacher", teacher)):
        _refuse_probabilities(name, logits)
    softened = F.log_softmax(student / temperature, 1), F.log_softmax(teacher / temperature, 1)
    return F.kl_div(*softened, reduction="batchmean", log_target=True) * temperature**2


def _refuse_probabilities(name: str, logits: Tensor) -> None:
    values = logits.detach()
    if values.min() >= 0 and torch.allclose(values.sum(1), torch.ones((), dtype=values.dtype, device=values.device)):
        raise NetdynoError(
            f"`{name}` must be logits",
            because="its rows are at least `0` and add up to `1`: they are probabilities, whose divergence would come out wrong",
            hint="leave out the softmax; distillation softens by itself",
        )


def gradient_directions(student: Tensor, teacher: Tensor) -> Tensor:
    """1 - cosine between two gradients of the same shape, sample by sample, mean over samples: 0 when they point one way.

    Differentiable: make the student's gradient with `torch.autograd.grad(loss, features, create_graph=True)`.
    """
    if student.shape != teacher.shape:
        raise NetdynoError(
            "cannot compare directions of gradients",
            because=f"the student's has the shape `{tuple(student.shape)}` and the teacher's `{tuple(teacher.shape)}`",
            hint="pair layers whose outputs have the same shape, or compare the gradients of the inputs",
        )
    return 1 - F.cosine_similarity(student.flatten(1), teacher.flatten(1).detach(), dim=1, eps=1e-12).mean()


def smoothing_floor(classes: int, smoothing: float) -> float:
    """The loss that label smoothing leaves even to a perfect model: the entropy of a smoothed label, in nats.

    >>> round(smoothing_floor(10, 0.1), 2), round(smoothing_floor(1000, 0.1), 2)
    (0.5, 1.01)
    """
    shares = torch.full((classes,), smoothing / classes, dtype=torch.float64)
    shares[0] += 1 - smoothing
    return float(-torch.special.xlogy(shares, shares).sum())


def shares_of(target: Tensor, logits: Tensor) -> Tensor:
    """The target as shares of classes along dimension 1, of the shape of `logits`."""
    if target.is_floating_point():
        return target
    return F.one_hot(target, logits.shape[1]).movedim(-1, 1).to(logits.dtype)


def _along_classes(alpha: Tensor | float, logits: Tensor) -> Tensor:
    weights = torch.as_tensor(alpha, dtype=logits.dtype, device=logits.device)
    return weights.reshape(-1, *[1] * (logits.dim() - 2)) if weights.dim() else weights


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassLoss:
    """The training loss over classes, hard or soft labels alike: cross-entropy until a knob says otherwise.

    `weight` has one number per class. With `gamma` above 0 it is the focal loss, and smoothed labels are focused too.
    """

    weight: Tensor | None = None
    smoothing: float = 0.0
    gamma: float = 0.0

    def __call__(self, output: Tensor, batch: Batch) -> Tensor:
        target = target_of(batch)
        weight = None if self.weight is None else self.weight.to(output)
        if self.gamma == 0:
            return F.cross_entropy(output, target, weight=weight, label_smoothing=self.smoothing)
        shares = shares_of(target, output)
        shares = shares * (1 - self.smoothing) + self.smoothing / output.shape[1]
        return focal(output, shares, gamma=self.gamma, alpha=1.0 if weight is None else weight)


def class_loss(setup: Setup) -> ClassLoss:
    """The loss over classes as it stands, for a knob to change with `with_loss`."""
    return setup.loss if isinstance(setup.loss, ClassLoss) else ClassLoss()


def with_loss(setup: Setup, **changes: Any) -> Setup:
    """A setup whose loss over classes is changed."""
    return replace(setup, loss=replace(class_loss(setup), **changes))


def no_classes(setup: Setup) -> str | None:
    """Why the training loss cannot be replaced by one over classes, or None: it is the plain cross-entropy of class numbers.

    A loss that the user declared is asked for a few numbers: one that answers as cross-entropy does is cross-entropy.
    """
    return _known(setup.workload, "no classes", lambda: _no_classes(setup))


def classes(setup: Setup) -> int:
    """How many classes the model tells apart."""
    return _known(setup.workload, "classes", lambda: int(output_of(setup).shape[1]))


def labels(setup: Setup) -> Tensor | None:
    """The class number of every training sample, in order; None where there is not one whole number per sample."""
    return _known(setup.workload, "labels", lambda: _labels(setup.workload))


def no_labels(setup: Setup) -> str | None:
    """Why classes cannot be weighed by how often they occur, or None."""
    if labels(setup) is None:
        return "the training data have not one class per sample"
    return no_classes(setup)


def counts(setup: Setup) -> Tensor:
    """How often each class occurs in training, one number per output of the model. Ask `no_labels` first."""
    found = labels(setup)
    assert found is not None
    return torch.bincount(found, minlength=classes(setup)).double()


def class_weights(setup: Setup, power: float) -> Tensor:
    """One weight per class: its count to the power of minus `power`, 1 on average over the training samples.

    So the size of the loss, and with it the learning rate, stays what it was. A class that never occurs weighs 1.
    """
    often = counts(setup)
    weights = often.clamp_min(1) ** -power
    weights *= often.sum() / (weights * often).sum()
    return torch.where(often > 0, weights, 1.0).float()


def imbalance(setup: Setup) -> float:
    """How many times as often the commonest class occurs as the rarest that occurs."""
    often = counts(setup)
    return float(often.max() / often[often > 0].min())


# What was found out about a workload: reading all its labels takes a while, and a search asks again and again.
_FACTS: dict[int, tuple[Workload, dict[str, Any]]] = {}


def _known(workload: Workload, fact: str, look: Callable[[], Any]) -> Any:
    there = _FACTS.get(id(workload))
    if there is None or there[0] is not workload:
        there = _FACTS[id(workload)] = (workload, {})
    if fact not in there[1]:
        there[1][fact] = look()
    return there[1][fact]


def _labels(workload: Workload) -> Tensor | None:
    train, _ = workload.datasets()
    if isinstance(train, IterableDataset):
        return None
    with kept_randomness():
        found = train.tensors[-1] if type(train) is TensorDataset else _read(train)
    return found if found is not None and found.dim() == 1 and not found.is_floating_point() else None


def _read(train: Any) -> Tensor | None:
    found = []
    for index in range(len(train)):
        sample = train[index]
        target = sample[-1] if isinstance(sample, tuple | list) else None
        if isinstance(target, Tensor) and target.numel() == 1:
            target = target.item()
        if not isinstance(target, numbers.Integral):
            return None
        found.append(int(target))
    return torch.tensor(found)


def _no_classes(setup: Setup) -> str | None:
    target, output = target_of(a_batch(setup)), output_of(setup)
    if not isinstance(target, Tensor) or target.is_floating_point():
        return "the targets are not class numbers"
    if (
        not isinstance(output, Tensor)
        or output.dim() != target.dim() + 1
        or output.shape[:1] + output.shape[2:] != target.shape
    ):
        return "the model's output does not hold one number per class along dimension 1"
    if setup.workload.loss is not None and not _is_cross_entropy(setup.workload.loss, output, target):
        return "the workload declares a loss of its own that is not plain cross-entropy"
    return None


def _is_cross_entropy(loss: Callable[[Any, Any], Tensor], output: Tensor, target: Tensor) -> bool:
    """True when the loss agrees with cross-entropy on numbers that nothing else would agree on."""
    chance = torch.Generator().manual_seed(0)
    for _ in range(3):
        logits = (3 * torch.randn(output.shape, generator=chance)).to(output)
        answers = torch.randint(output.shape[1], target.shape, generator=chance).to(target)
        try:
            with kept_randomness():
                found = float(loss(logits, answers))
        except Exception:
            return False
        if abs(found - float(F.cross_entropy(logits, answers))) > ROUNDING * max(1.0, abs(found)):
            return False
    return True


def teacher_of(setup: Setup) -> nn.Module | None:
    """The trained model to learn from, in evaluation: the setup's, or the one that the workload declares."""
    if setup.teacher is not None:
        return setup.teacher.eval()
    make = setup.workload.teacher
    return None if make is None else _known(setup.workload, "teacher", lambda: _taught(make, setup))


def _taught(make: Callable[[], nn.Module], setup: Setup) -> nn.Module:
    with kept_randomness():
        return make().to(setup.workload.device).eval().requires_grad_(False)
