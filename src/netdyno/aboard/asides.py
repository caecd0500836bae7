"""What scripts do beside the work: reading values, saving, logging; and losses written as functions."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from . import steps
from .account import EVALUATION, LOG, LOSS, SAVE, SYNC
from .frames import user_line
from .patches import Patches, at_home

if TYPE_CHECKING:
    from .observe import Observer

READS = ("item", "tolist", "__bool__", "__float__", "__int__")
COPIES = ("cpu", "numpy")
LOSSES = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "triplet_margin_loss",
)
# (module that must have been imported, class or "" for the module, functions): patched once they are there.
LOGGERS = (
    (
        "torch.utils.tensorboard.writer",
        "SummaryWriter",
        ("add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "add_figure", "add_text"),
    ),
    (
        "tensorboardX.writer",
        "SummaryWriter",
        ("add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "add_figure", "add_text"),
    ),
    ("wandb.sdk.wandb_run", "Run", ("log",)),
    ("mlflow", "", ("log_metric", "log_metrics", "log_artifact")),
)


def patch(patches: Patches, observer: "Observer") -> None:
    """Reads, saves and functional losses; loggers follow when they are imported."""
    import torch
    import torch.nn.functional as F

    for name in () if observer.faded else READS:
        patches.replace(f"Tensor.{name}", torch.Tensor, name, partial(_read, observer, name))
    for name in COPIES:
        patches.replace(f"Tensor.{name}", torch.Tensor, name, partial(_copy, observer, name))
    patches.replace("save", torch, "save", lambda original: _timed(observer, original, SAVE, steps.SAVE, "saves"))
    for name in LOSSES:
        patches.replace(name, F, name, lambda original: _loss(observer, original))


def fade(patches: Patches, observer: "Observer") -> None:
    """What reads values is known by now: where all lies on the host, and nothing waits, reading is left alone from here on.

    An optimizer such as AdamW reads a step count twice for each parameter, and each time passed by here.
    """
    import torch

    groups = (group for optimizer in observer.view.optimizers for group in optimizer.param_groups)
    if all(p.is_cpu for group in groups for p in group["params"]):
        observer.faded = True
        patches.drop(torch.Tensor, READS)


def patch_loggers(patches: Patches, observer: "Observer", done: set[str]) -> None:
    """Loggers that were imported since the last look."""
    for module, kind, names in LOGGERS:
        owner = sys.modules.get(module)
        owner = getattr(owner, kind, None) if kind and owner is not None else owner
        if owner is None or module in done:
            continue
        done.add(module)
        for name in names:
            patches.replace(
                f"{module}.{name}", owner, name, lambda original: _timed(observer, original, LOG, steps.LOG, "logs")
            )


def _read(observer: "Observer", name: str, original: Any) -> Any:
    account, frame_of = observer.account, sys._getframe
    is_traced = observer.is_traced

    def read(self: Any) -> Any:
        # Adam reads its step counts by .item(), once per parameter: inside an optimizer nothing is the script's, and
        # this is the way that is taken most often by far.
        if is_traced() or observer.stepping or observer.off:
            return original(self)
        if account.current == SYNC or not observer.candidate():
            return original(self)
        on_host = self.is_cpu
        _note(observer, name, frame_of(1), on_host)
        if on_host:  # ready at once: two readings of the clock would cost more than it takes
            return original(self)
        account.aside(SYNC)
        try:
            return original(self)
        finally:
            account.pop()

    return read


def _copy(observer: "Observer", name: str, original: Any) -> Any:
    account, frame_of = observer.account, sys._getframe
    is_traced = observer.is_traced

    def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        # What is on the host already copies nothing and waits for nothing.
        if is_traced() or observer.stepping or observer.off or self.is_cpu:
            return original(self, *args, **kwargs)
        if account.current == SYNC or not observer.candidate():
            return original(self, *args, **kwargs)
        _note(observer, name, frame_of(1), False)
        account.aside(SYNC)
        try:
            return original(self, *args, **kwargs)
        finally:
            account.pop()

    return copy


def _note(observer: "Observer", name: str, frame: Any, on_host: bool) -> None:
    phase = observer.account.current
    if phase != EVALUATION:
        observer.events.append(steps.SYNC)
    observer.facts.read(name, frame, phase, on_host)


def _timed(observer: "Observer", original: Any, phase: int, token: int, kind: str) -> Any:
    account, events = observer.account, observer.events

    def timed(*args: Any, **kwargs: Any) -> Any:
        if account.current == phase or not observer.candidate():
            return original(*args, **kwargs)
        if not events or events[-1] != token:  # a logger is told many things at once
            events.append(token)
        began = observer.now()
        account.aside(phase)
        off, observer.off = observer.off, True
        try:
            return original(*args, **kwargs)
        finally:
            observer.off = off
            account.pop()
            observer.facts.beside(kind, user_line(sys._getframe(1)), observer.now() - began)

    return timed


def _loss(observer: "Observer", original: Any) -> Any:
    account = observer.account
    loss, is_grad_enabled, is_traced = LOSS, observer.is_grad_enabled, observer.is_traced

    def functional(*args: Any, **kwargs: Any) -> Any:
        if (
            is_traced()
            or observer.off
            or account.current == loss
            or observer.backwards
            or not is_grad_enabled()
            or not observer.candidate()
        ):
            return original(*args, **kwargs)
        account.aside(loss)
        try:
            return original(*args, **kwargs)
        finally:
            account.pop()

    return at_home(functional, original)
