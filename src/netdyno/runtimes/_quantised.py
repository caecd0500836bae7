"""A module in int8 by PyTorch's own quantiser for x86: after training from calibration rows, or with training in between.

It imports torch and torchao, so runtimes import it where they export.
"""

import copy
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torchao.quantization.pt2e import allow_exported_model_train_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

from netdyno.errors import ArmError
from netdyno.runtimes import _modules as modules
from netdyno.runtimes import _programs as programs
from netdyno.runtimes._base import Exportable, processor_flags

# Rows that observers see at once. They keep histograms, which cost the same for a row and for many.
AT_ONCE = 32
VNNI = {"avx512_vnni", "avx_vnni", "amx_int8"}
MOMENTUM = 0.1  # PyTorch's default
LAYERS = (torch.ops.aten.conv1d, torch.ops.aten.conv2d, torch.ops.aten.conv3d, torch.ops.aten.linear)


class Quantised(NamedTuple):
    """A module with its quantisation as operations, and how much of it is quantised."""

    model: nn.Module
    says: str


def quantised(subject: Exportable, rows: int | None, ignored: tuple[str, ...] = ()) -> Quantised:
    """The subject's module in int8, set up by its calibration rows; as it is where it was trained for int8. Raises ArmError."""
    if is_quantised(subject.model):
        return Quantised(subject.model, "it was trained for int8")
    captured = programs.program(subject.model, subject, rows).module(check_guards=False)
    prepared = prepare_pt2e(captured, quantiser(subject.model, ignored))
    seen = 0
    with torch.no_grad(), _narrow():
        for batch in _batches(subject.calibration(), rows or AT_ONCE):
            prepared(*modules.sized(batch, rows))
            seen += len(batch[0])
    if not seen:
        raise ArmError("there are no calibration rows to set int8 up with")
    return converted(prepared, f"{seen} calibration rows")


def prepared_for_training(model: nn.Module, subject: Exportable, ignored: tuple[str, ...] = ()) -> torch.fx.GraphModule:
    """The module with fake quantisation at every layer, batch norms fused, ready to be trained. Raises ArmError in eval mode."""
    if not model.training:
        raise ArmError(
            "quantisation-aware training prepares a module in train mode, and this one is in eval mode: call `model.train()`"
        )
    model = copy.deepcopy(model).requires_grad_(requires_grad=True)
    for module in model.modules():
        # A running mean over all batches asks a tensor for its count, which a graph cannot hold.
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum is None:
            module.momentum = MOMENTUM
    captured = programs.program(model, subject, None if subject.dynamic else len(subject.example[0])).module(
        check_guards=False
    )
    with _narrow():
        prepared = prepare_qat_pt2e(captured, quantiser(model, ignored, training=True))
    bare = _bare(prepared, ignored)
    if bare:
        raise ArmError(f"no fake quantisation stands before {', '.join(bare)}: leave them in float by name")
    return allow_exported_model_train_eval(prepared)


def converted(prepared: torch.fx.GraphModule, by: str) -> Quantised:
    """The quantised module of a prepared one."""
    with _narrow():
        model = allow_exported_model_train_eval(convert_pt2e(prepared))
    layers = [node for node in model.graph.nodes if _is_layer(node)]
    inside = [node for node in layers if _is_dequantised(node.args[0]) and _is_dequantised(node.args[1])]
    if not inside:
        raise ArmError(
            "nothing of it can be computed in int8: it has no convolution and no linear layer that torchao knows"
        )
    return Quantised(model, f"{len(inside)} of {len(layers)} layers are in int8, set up by {by}")


def quantiser(model: nn.Module, ignored: tuple[str, ...], *, training: bool = False) -> x86.X86InductorQuantizer:
    """The quantiser for x86, without the layers that stay in float. Raises ArmError for a name that the module does not have.

    Without VNNI eight-bit products overflow sixteen bits when activations use all of their range, so they use half of it.
    """
    names = dict(model.named_modules())
    unknown = [name for name in ignored if name not in names]
    if unknown:
        raise ArmError(f"the module has no layer `{unknown[0]}` to leave in float")
    config = x86.get_default_x86_inductor_quantization_config(
        is_qat=training, reduce_range=not VNNI & set(processor_flags())
    )
    found = x86.X86InductorQuantizer().set_global(config)
    for name in ignored:
        found.set_module_name_qconfig(name, None)
    return found


def is_quantised(model: nn.Module) -> bool:
    """True for a module with a graph inside that quantises by itself."""
    graphs = [module.graph for module in model.modules() if isinstance(module, torch.fx.GraphModule)]
    return any(_is_dequantised(node) for graph in graphs for node in graph.nodes)


def _is_layer(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "overloadpacket", None) in LAYERS


def _is_dequantised(node: Any) -> bool:
    """Whether a value comes from eight bits, be it through a reshape."""
    while isinstance(node, torch.fx.Node) and "dequantize" not in str(node.target):
        if not node.args or str(node.target) not in PASSING:
            return False
        node = node.args[0]
    return isinstance(node, torch.fx.Node)


# What moves numbers about without changing them.
PASSING = {
    "aten.view.default",
    "aten.reshape.default",
    "aten.flatten.using_ints",
    "aten.permute.default",
    "aten.max_pool2d.default",
}


def _bare(prepared: torch.fx.GraphModule, ignored: tuple[str, ...]) -> list[str]:
    """Layers whose weights go unquantised into training, by their names."""
    found = []
    for node in prepared.graph.nodes:
        if not _is_layer(node) or _comes_from(node, ignored):
            continue
        weight = node.args[1]
        if not (weight.op == "call_module" and "activation_post_process" in str(weight.target)):
            found.append(f"`{_path(node)}`")
    return found


def _path(node: torch.fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return list(stack.values())[-1][0] if stack else node.name


def _comes_from(node: torch.fx.Node, names: tuple[str, ...]) -> bool:
    return any(_path(node) == name or _path(node).startswith(f"{name}.") for name in names)


def _batches(rows: Iterable[tuple[Tensor, ...]], size: int) -> Iterator[tuple[Tensor, ...]]:
    """Rows that come one by one or in batches, so many at once."""
    waiting: list[tuple[Tensor, ...]] = []
    for row in rows:
        waiting.append(row)
        if sum(len(part[0]) for part in waiting) >= size:
            yield tuple(torch.cat(parts) for parts in zip(*waiting, strict=True))
            waiting = []
    if waiting:
        yield tuple(torch.cat(parts) for parts in zip(*waiting, strict=True))


@contextmanager
def _narrow() -> Iterator[None]:
    """Silence what torchao tells its own developers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torchao\..*")
        yield
