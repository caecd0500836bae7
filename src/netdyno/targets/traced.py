"""Looks into a module's own forward, as a graph, and puts a rewritten forward in its place.

Only the forward of one module is looked into; the modules inside it stay calls, with their hooks, modes and patches.
A graph that would freeze something that the code decides anew each time is not used; `traced` says why.
"""

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import fx, nn

from netdyno.targets.samples import kept_randomness


class Unusable(Exception):
    """Why a forward cannot be looked into, in words a user can read."""


Rewrite = Callable[[fx.GraphModule], int]  # rewrites in place; how many places it changed


class _Tracer(fx.Tracer):
    """Stops at the door of each module inside, but for the small ones without parts that only hold a few lines."""

    proxy_buffer_attributes = True  # or what is computed from a buffer would become a constant

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002  torch names it
        theirs = type(m).__module__.startswith("torch.nn")
        empty = not any(True for _ in m.children()) and not any(True for _ in m.parameters(recurse=False))
        return theirs or not empty or bool(m._forward_hooks or m._forward_pre_hooks)


def traced(module: nn.Module) -> fx.GraphModule:
    """The forward of `module` as a graph over the module's own parts. Raises Unusable.

    Arguments with defaults are taken to be left out. The module is not touched: a copy is traced.
    """
    with kept_randomness():
        graph, again = _graph(module), _graph(module)
    if str(graph) != str(again):
        raise Unusable("its forward draws numbers in Python, which a graph would freeze")
    for node in graph.nodes:
        if node.op == "get_attr" and not _is_parameter(module, str(node.target)):
            raise Unusable("its forward uses a buffer or a constant tensor, which a graph would hold on to")
    made = fx.GraphModule(module, graph)
    made.training = module.training
    return made


def _graph(module: nn.Module) -> fx.Graph:
    # Parameters are shared with the copy; forward code that writes to buffers or attributes writes to the copy's.
    shared = {id(parameter): parameter for parameter in module.parameters()}
    try:
        twin = copy.deepcopy(module, shared)
        twin.__dict__.pop("forward", None)
        return _Tracer().trace(twin, concrete_args=_defaults(module))
    except Exception as error:
        raise Unusable(f"its forward cannot be traced: {str(error).strip().splitlines()[0]}") from error


def _defaults(module: nn.Module) -> dict[str, Any] | None:
    parameters = inspect.signature(type(module).forward).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty} or None


def _is_parameter(module: nn.Module, path: str) -> bool:
    owner, _, name = path.rpartition(".")
    try:
        inside = module.get_submodule(owner)
    except AttributeError:
        return False
    return name in inside._parameters


@contextmanager
def rewritten(module: nn.Module, rewrite: Rewrite) -> Iterator[None]:
    """Inside, `module` runs its rewritten forward; afterwards its own again. Raises Unusable.

    Each mode has its own graph, for `self.training` is read when a graph is made. A call that gives an argument
    which has a default goes the original way.
    """
    own = module.__dict__.get("forward")
    plain = module.forward
    graphs: dict[bool, Callable[..., Any]] = {module.training: _changed(module, rewrite)}
    given = len(inspect.signature(type(module).forward).parameters) - 1 - len(_defaults(module) or {})

    def forward(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != given:
            return plain(*args, **kwargs)
        if module.training not in graphs:
            graphs[module.training] = _changed_or(plain, module, rewrite)
        return graphs[module.training](*args)

    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        del module.__dict__["forward"]
        if own is not None:
            module.__dict__["forward"] = own


def _changed_or(plain: Callable[..., Any], module: nn.Module, rewrite: Rewrite) -> Callable[..., Any]:
    try:
        return _changed(module, rewrite)
    except Unusable:  # in this mode it does something else
        return plain


def _changed(module: nn.Module, rewrite: Rewrite) -> Callable[..., Any]:
    graph = traced(module)
    if not rewrite(graph):
        raise Unusable("nothing in it is to be rewritten")
    graph.graph.lint()
    graph.recompile()
    return graph.forward  # type: ignore[no-any-return]
