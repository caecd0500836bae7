"""Which modules ran in training, asked for one update: parameters of the others have no gradient because they rest."""

from collections.abc import Iterable
from typing import Any

# Looked at in this update: those before tell which parameters have no gradient, and it is early enough for a short ride.
WHEN = 9


class Reach:
    """Listens to every module call of one update."""

    def __init__(self) -> None:
        self.ran: set[int] | None = None
        self._handle: Any = None

    def begin(self, models: Iterable[Any]) -> None:
        """Listen, unless something is compiled: it would be compiled anew because of us."""
        import torch
        from torch.nn.modules.module import register_module_forward_pre_hook

        if any(is_compiled(module) for model in models for module in model.modules()):
            return
        ran: set[int] = set()

        def heard(module: Any, args: Any) -> None:
            if torch.is_grad_enabled():
                ran.add(id(module))

        self._handle = register_module_forward_pre_hook(heard)
        self.ran = ran

    @property
    def listens(self) -> bool:
        """True while the update that is listened to is under way."""
        return self._handle is not None

    def end(self) -> None:
        """Listen no more."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def split(self, model: Any, names: Iterable[str]) -> tuple[list[str], list[str]]:
        """Of these parameters of `model` the ones whose module ran, and the others; all unknown ones are others."""
        assert self.ran is not None
        there = dict(model.named_modules())
        ran: list[str] = []
        rested: list[str] = []
        for name in names:
            owner = there.get(name.rpartition(".")[0])
            (ran if id(owner) in self.ran else rested).append(name)
        return ran, rested


def is_compiled(module: Any) -> bool:
    """Whether torch.compile made it, or compiled it in place."""
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
