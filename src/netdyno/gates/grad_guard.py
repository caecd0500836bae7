"""A call without a guard keeps what a backward pass would need, or the forward cannot do without gradients.

Looks for:  bytes that a call keeps for a backward pass which never comes, a forward that switches gradients on by itself, and a
            forward that raises under `torch.inference_mode()`.
Matters:    memory, not correctness; but every runtime here runs without gradients, so a forward that needs them cannot be shipped.
Try:        `torch.inference_mode()` around the call, `requires_grad_(False)` on the module (ledger A-240).
Not this:   the mode of dropout and BatchNorm, which is another switch (see `eval-mode`).
"""

from typing import Any

import torch
from torch import Tensor, nn

from netdyno.gates._base import Candidate, failed, item, passed, plural
from netdyno.gates._operations import tensors
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck

MB = 1e6


@item
def grad_guard(candidate: Candidate) -> GateCheck:
    model, rows = candidate.model.eval(), tuple(tensor[:1] for tensor in candidate.rows)
    rows = rows if _answers(model, rows) else candidate.example
    try:
        with torch.inference_mode():
            guarded = tensors(model(*(row.clone() for row in rows)))
    except Exception as error:
        return failed(
            f"it raises {type(error).__name__} under inference_mode: {str(error).splitlines()[0] if str(error) else ''}",
            fix="compute what `forward` takes from gradients in closed form; runtimes have no backward pass",
        )
    if any(tensor.requires_grad for tensor in guarded):
        return failed(
            "its answers carry a graph even under inference_mode: `forward` switches gradients on",
            fix="take `torch.enable_grad()` out of `forward`",
        )
    asking = sum(parameter.requires_grad for parameter in model.parameters())
    if not asking:
        return passed("no parameter asks for gradients")
    kept = 0

    def keep(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += tensor.numel() * tensor.element_size() if not isinstance(tensor, nn.Parameter) else 0
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        carrying = sum(tensor.requires_grad for tensor in tensors(model(*rows)))
    if not carrying:
        return passed("a call keeps nothing for a backward pass")
    return failed(
        f"{plural(asking, 'parameter')} ask for gradients: a call without a guard keeps {kept / MB:.3g} MB per row for a backward pass",
        fix="answer inside `torch.inference_mode()`; what is exported here does",
        warning=True,
        parameters=float(asking),
        bytes=float(kept),
    )


def _answers(model: nn.Module, rows: tuple[Tensor, ...]) -> bool:
    try:
        with torch.no_grad():
            model(*rows)
    except Exception:
        return False
    return True


class _Forces(nn.Module):
    """An energy and its gradient in the input, as models of molecules give them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> Any:
        with torch.enable_grad():
            x = x.clone().requires_grad_()
            energy = self.body(x)
            (force,) = torch.autograd.grad(energy.sum(), x)
        return energy.detach(), force


SICK = (lambda: candidate(_Forces().eval()),)
# A warning: what asks for gradients is answered right all the same.
WELL = (candidate, lambda: candidate(trained(Net()).requires_grad_(requires_grad=False)))
