"""A module as a graph of torch.export, with any number of rows or with a fixed one. Imports torch, so runtimes import it where they export."""

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from netdyno.errors import ArmError
from netdyno.runtimes import _modules as modules
from netdyno.runtimes._base import Exportable


def program(
    model: nn.Module, subject: Exportable, rows: int | None, *, example: tuple[Tensor, ...] | None = None
) -> ExportedProgram:
    """The graph of `model` for so many rows, or for any number where None. Raises ArmError with the reason in one line.

    `example` replaces the subject's, for a model that takes another precision.
    """
    tensors = modules.sized(subject.example if example is None else example, rows)
    try:
        with torch.no_grad():
            return pruned(torch.export.export(model, tensors, dynamic_shapes=_shapes(model, subject, tensors, rows)))
    except Exception as error:
        if "Constraints violated (rows)" in str(error):
            raise ArmError(
                "its code fixes the number of rows to that of the example: give it no Python number made from a shape, "
                "or declare `dynamic=False`"
            ) from error
        raise modules.refused("torch.export cannot follow it", error) from error


def pruned(program: ExportedProgram) -> ExportedProgram:
    """The same program, without the weights that no operation uses: those of ways that were not taken."""
    signature = program.graph_signature
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    idle = {
        node for node in program.graph.nodes if node.op == "placeholder" and node.name in weights and not node.users
    }
    names = {node.name for node in idle}
    signature.input_specs[:] = [spec for spec in signature.input_specs if getattr(spec.arg, "name", None) not in names]
    for node in idle:
        program.graph.erase_node(node)
    needed = {spec.target for spec in signature.input_specs}
    for name in names:
        if weights[name] not in needed:
            program.state_dict.pop(weights[name], None)
            program.constants.pop(weights[name], None)
    program.graph_module.recompile()
    return program


def _shapes(model: nn.Module, subject: Exportable, tensors: tuple[Tensor, ...], rows: int | None) -> Any:
    """Rows of all inputs are one dimension; lengths that the signature leaves open are found by torch.export."""
    found = []
    for tensor, port in zip(tensors, subject.signature.inputs, strict=True):
        lengths = {at + 1: Dim.DYNAMIC for at, length in enumerate(port.shape) if length is None and at < tensor.dim()}
        found.append({**({0: Dim("rows")} if rows is None else {}), **lengths})
    kinds = [parameter.kind for parameter in inspect.signature(model.forward).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:  # what `*inputs` takes is one argument to torch.export
        named = kinds.index(inspect.Parameter.VAR_POSITIONAL)
        return (*found[:named], tuple(found[named:]))
    return tuple(found)


def compiled(program: ExportedProgram, path: Path, *, threads: int) -> None:
    """Compile a program into a package with its weights inside. Raises ArmError with the reason in one line."""
    # Frozen weights are prepacked and batch norms folded; as many compilers as threads run at once.
    configs = {"freezing": True, "compile_threads": threads}
    try:
        with torch.no_grad():
            torch._inductor.aoti_compile_and_package(program, package_path=str(path), inductor_configs=configs)
    except Exception as error:
        raise modules.refused("AOTInductor cannot compile it", error) from error


def in_bf16(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The floating-point ones of some tensors in bf16."""
    return tuple(tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor for tensor in tensors)
