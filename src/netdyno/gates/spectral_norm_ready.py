"""A layer under spectral normalisation, or a lazy layer, has not seen the step that makes it ready.

Looks for:  an estimate of the largest singular value that is off, because the vectors it comes from were not trained or not loaded;
            parameters that have no shape yet.
Matters:    the weights are divided by that estimate: they are too large by a factor in eval mode, where it is not refined (fault bench T12).
Try:        load the buffers of the checkpoint with its parameters; a few steps in training mode.
Not this:   an estimate that is a little low, as two or three power steps leave it.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from netdyno.gates._base import Candidate, failed, item, names, passed
from netdyno.gates._specimens import CLASSES, Net, candidate, trained
from netdyno.measure.untouched import random_state
from netdyno.records.deployment import GateCheck

# Training refines the estimate by a step per update and ends within a few per cent, after large last steps at three quarters; vectors
# of other weights, or random ones, have less than a half.
LEAST, USUAL = 0.5, 0.8


@item
def spectral_norm_ready(candidate: Candidate) -> GateCheck:
    model = candidate.model
    lazy = [name for name, one in (*model.named_parameters(), *model.named_buffers()) if is_lazy(one)]
    if lazy:
        return failed(
            f"{names(lazy)} {'has' if len(lazy) == 1 else 'have'} no shape yet: a lazy layer that never saw a row",
            fix="run one batch through the module before its weights are loaded",
            where=lazy[0],
            parameters=float(len(lazy)),
        )
    found = {name: _estimate(weight, u, v) for name, weight, u, v in _bounded(model)}
    low = {name: share for name, share in found.items() if share < USUAL}
    if not low:
        return passed(
            f"{len(found)} layers under spectral normalisation are ready"
            if found
            else "no layer is lazy or under spectral normalisation"
        )
    worst = min(low, key=lambda name: low[name])
    return failed(
        f"`{worst}` is divided by {low[worst]:.0%} of its largest singular value: its weights act {1 / max(low[worst], 1e-6):.3g} times too large",
        fix="load the buffers of the checkpoint with its parameters (`state_dict`, not `named_parameters`), or run some steps in training mode",
        where=worst,
        warning=low[worst] >= LEAST,
        share=low[worst],
        layers=float(len(low)),
    )


def _bounded(model: nn.Module) -> Iterator[tuple[str, Tensor, Tensor, Tensor]]:
    """Name, weight before the division, and the two vectors, of every layer under spectral normalisation, in either of its forms."""
    for name, module in model.named_modules():
        if hasattr(module, "weight_orig") and hasattr(module, "weight_u") and hasattr(module, "weight_v"):
            matrix = module.weight_orig.detach()
            hook = next(
                (hook for hook in module._forward_pre_hooks.values() if type(hook).__name__ == "SpectralNorm"), None
            )
            axis = getattr(hook, "dim", 0)
            yield name, matrix.movedim(axis, 0).flatten(1), module.weight_u, module.weight_v
        for part in getattr(module, "parametrizations", {}).values():
            for one in part:
                if type(one).__name__ == "_SpectralNorm" and hasattr(one, "_u"):
                    yield name, one._reshape_weight_to_matrix(part.original.detach()), one._u, one._v


def _estimate(matrix: Tensor, u: Tensor, v: Tensor) -> float:
    """The estimated largest singular value as a share of the true one."""
    true = float(torch.linalg.matrix_norm(matrix.float(), 2))
    return float(torch.dot(u.float(), matrix.float() @ v.float()).abs()) / true if true else 1.0


class _Bounded(Net):
    def __init__(self, *, new: bool = True) -> None:
        super().__init__()
        wrap = nn.utils.parametrizations.spectral_norm if new else nn.utils.spectral_norm
        self.head = wrap(nn.Linear(8 * 16, CLASSES))  # type: ignore[assignment]


def _scattered(*, new: bool) -> nn.Module:
    """A bounded head whose vectors come from somewhere else, as when only parameters are loaded."""
    model = trained(_Bounded(new=new))
    with random_state():
        torch.manual_seed(0)
        for name, buffer in model.named_buffers():
            if name.endswith(("_u", "_v")):
                buffer.copy_(nn.functional.normalize(torch.randn_like(buffer), dim=0))
    return model


class _Lazy(Net):
    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.LazyLinear(3)


SICK = (
    lambda: candidate(_scattered(new=True)),
    lambda: candidate(_scattered(new=False)),
    lambda: candidate(_Lazy().eval()),
)
WELL = (candidate, lambda: candidate(trained(_Bounded())))
