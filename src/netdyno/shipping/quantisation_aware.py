"""Training for int8: fake quantisation goes in, the release's own `train` runs under a budget, and a release in int8 comes out (ledger A-273).

What comes out is a release like any other, so every runtime exports it, and the same gate, parity and accuracy guard judge it.
"""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn

from netdyno.errors import ArmError, StoreError
from netdyno.measure.latency import elapsed
from netdyno.records.base import Noun
from netdyno.records.deployment import Signature
from netdyno.records.trial import Change
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes import _export as exports
from netdyno.targets import release as releases
from netdyno.targets.release import Release

PROGRAM, BUILT, SOURCE = "int8.pt2", "built.json", "release.py"
DECLARED = '''"""Written by netdyno: `{name}` after quantisation-aware training. Its data are declared where the release is."""

from netdyno.shipping.quantisation_aware import reloaded

Int8 = reloaded(__file__)
'''


class Order(Noun, frozen=True, kw_only=True):
    """What is to be trained: a release by its reference, which layers stay in float, and where the result goes."""

    reference: str
    folder: str
    signature: Signature
    ignored: tuple[str, ...] = ()
    threads: int = 1


class Trained(Noun, frozen=True, kw_only=True):
    """A release in int8: how it is found, what it was made from, seconds of training, and its weights' bytes as a share of the module's."""

    reference: str
    origin: str
    says: str
    seconds: float
    share: float


def trained(
    reference: str,
    folder: Path,
    *,
    signature: Signature,
    budget_s: float,
    ignored: tuple[str, ...] = (),
    threads: int = 1,
    python: str = sys.executable,
) -> Trained:
    """Train a release for int8 in a fresh process that is ended after `budget_s`; its result lies in `folder`.

    Raises ArmError with the reason: no `train` is declared, the budget is spent, a layer cannot be quantised.
    """
    lacks = runtimes.missing(("torchao",))
    if lacks is not None:
        raise ArmError(f"quantisation-aware training cannot run here: {lacks}")
    if releases.load(reference).train is None:
        raise ArmError("the release declares no `train`: give one that fine-tunes a prepared module in place")
    folder.mkdir(parents=True, exist_ok=True)
    order = Order(reference=reference, folder=str(folder), signature=signature, ignored=ignored, threads=threads)
    module = "netdyno.shipping.quantisation_aware"
    return exports.ran(
        module, order, Trained, timeout_s=budget_s, threads=threads, what="quantisation-aware training", python=python
    )


def main(path: str) -> None:
    """Train as the order says; for the process that `trained` starts."""
    order = msgspec.json.decode(Path(path).read_bytes(), type=Order)
    with exports.one_line():
        _carry_out(order)


def _carry_out(order: Order) -> None:
    from netdyno.runtimes import _programs as programs
    from netdyno.runtimes import _quantised as quantised

    release = releases.load(order.reference)
    subject = exports.exportable(
        exports.Spec(
            reference=order.reference,
            change=Change(id="quantisation-aware"),
            folder=order.folder,
            signature=order.signature,
            dynamic=release.dynamic,
            threads=order.threads,
        )
    )
    if not subject.dynamic:
        raise ArmError("the graph that is trained takes any number of rows, and the release allows only some")
    if release.train is None:
        raise ArmError("the release declares no `train`")
    model = release.module().train()
    prepared = quantised.prepared_for_training(model, subject, order.ignored)
    prepared.train()
    seconds = elapsed(_training(release.train, prepared))
    prepared.eval()
    found = quantised.converted(prepared, "training")
    program = programs.program(found.model, subject, None)
    folder = Path(order.folder)
    torch.export.save(program, folder / PROGRAM)
    (folder / SOURCE).write_text(DECLARED.format(name=release.name))
    built = Trained(
        reference=f"{folder.resolve() / SOURCE}:Int8",
        origin=order.reference,
        says=found.says,
        seconds=seconds,
        share=_bytes(program.state_dict, program.constants) / _bytes(model.state_dict()),
    )
    (folder / BUILT).write_bytes(msgspec.json.encode(built))


def _training(train: Callable[[nn.Module], None], prepared: nn.Module) -> Callable[[], None]:
    """The user's training, which must move something: a `train` that does not is a mistake nobody would see."""

    def run() -> None:
        before = [parameter.detach().clone() for parameter in prepared.parameters()]
        train(prepared)
        after = list(prepared.parameters())
        if all(torch.equal(mine, theirs) for mine, theirs in zip(before, after, strict=True)):
            raise ArmError("`train` has changed no weight of the prepared module: it must train the module it is given")

    return run


def _bytes(*states: Any) -> int:
    """Bytes of the tensors in some states, each once."""
    tensors = [value for state in states for value in state.values() if isinstance(value, torch.Tensor)]
    return sum({tensor.data_ptr(): tensor.numel() * tensor.element_size() for tensor in tensors}.values())


def reloaded(file: str) -> Release:
    """The release that a trained one's `release.py` declares: the module in int8, with the data of the release it was made from.

    Raises StoreError when what was trained is not there.
    """
    folder = Path(file).resolve().parent
    try:
        built = msgspec.json.decode((folder / BUILT).read_bytes(), type=Trained)
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(
            f"cannot read what was trained in `{folder}`", because=str(error), hint="train again; nobody should edit it"
        ) from error
    origin = releases.load(built.origin)
    return dataclasses.replace(
        origin, model=lambda: Int8(folder / PROGRAM), train=None, name=f"{origin.name}-int8" if origin.name else "int8"
    )


class Int8(nn.Module):
    """A graph that was trained for int8 and is finished: it has no training mode."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        from netdyno.runtimes import _quantised  # noqa: F401  it brings the operations that the file is made of

        self.graph_module = torch.export.load(file).module(check_guards=False)
        for module in self.modules():
            module.training = False

    def forward(self, *inputs: Any) -> Any:
        return self.graph_module(*inputs)

    def train(self, mode: bool = True) -> "Int8":
        """Itself, as it is. Raises RuntimeError when it is to be trained."""
        if mode:
            raise RuntimeError("a module that was converted to int8 cannot be trained")
        return self


if __name__ == "__main__":
    main(sys.argv[1])
