"""The module is in training mode, or a part of it is.

Looks for:  the training flag anywhere in the tree, and modules with such a flag that are kept in a plain list or dictionary, where
            `eval()` does not reach them.
Matters:    dropout answers by chance, and batch normalisation answers by the rest of the batch (ledger A-240, A-241).
Try:        `model.eval()` as the last line of what gives the module; `nn.ModuleList` instead of a list.
Not this:   dropout that is called as a function, whatever the flag says (see `repeat-determinism`).
"""

from collections.abc import Iterator

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from netdyno.gates._base import Candidate, failed, item, names, passed, plural
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck


@item
def eval_mode(candidate: Candidate) -> GateCheck:
    model = candidate.model
    awake = [name for name, module in model.named_modules() if module.training]
    hidden = [name for name, module in _hidden(model) if module.training]
    acting = [name for name, module in model.named_modules() if module.training and _acts(module)]
    if not awake and not hidden:
        return passed("every module is in eval mode", modules=float(sum(1 for _ in model.modules())))
    model.eval()
    stubborn = [name for name, module in model.named_modules() if module.training]
    named = acting or awake or hidden
    says = f"{plural(len(awake) + len(hidden), 'module')} in training mode, {names(named)} among them"
    because = {"training": float(len(awake) + len(hidden)), "acting": float(len(acting))}
    if hidden:
        fix = f"keep {names(hidden)} in an nn.ModuleList or nn.ModuleDict: eval() does not reach a plain list or dictionary"
    elif stubborn:
        fix = f"{names(stubborn)} stays in training mode after eval(): take its own `train` method away, or its answers stay random"
    else:
        fix = "call `model.eval()` before the module is handed over"
    return failed(says, fix=fix, where=named[0], numbers=because)


def _acts(module: nn.Module) -> bool:
    """True when the flag changes what the module answers."""
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
        return module.dropout > 0
    return isinstance(module, _NormBase | nn.RReLU)


def _hidden(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules that a module holds without having registered them."""
    for owner, module in model.named_modules():
        if isinstance(module, nn.ModuleList | nn.ModuleDict):
            continue
        for name, value in vars(module).items():
            if name.startswith("_"):
                continue
            held = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
            for one in held:
                if isinstance(one, nn.Module):
                    yield f"{owner}.{name}".lstrip("."), one


class _Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.drops = trained(Net()), [nn.Dropout(0.5)]


class _AlwaysOn(Net):
    def train(self, mode: bool = True) -> "_AlwaysOn":  # noqa: ARG002  what is wrong with it
        super().train(mode=True)
        return self


class _Half(nn.Module):
    """In eval mode, but for one layer deep inside that was set back."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, dropout=0.1)
        self.eval()
        self.layer.self_attn.train()


SICK = (
    lambda: candidate(trained(Net()).train()),
    lambda: candidate(_Listed().eval()),
    lambda: candidate(_AlwaysOn().eval()),
    lambda: candidate(_Half()),
)
WELL = (candidate, lambda: candidate(trained(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)))))
