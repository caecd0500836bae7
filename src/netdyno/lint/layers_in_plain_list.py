"""Layers are kept in a plain Python list or dictionary.

Looks for:  `self.x = [nn.Linear(...), ...]` in an `nn.Module`, also as a comprehension, a dictionary, or an empty list to
            which layers are appended.
Wrong:      `self.blocks = [Block() for _ in range(4)]`: they are not in `parameters()`, so they are not trained, moved
            or saved.
Right:      `self.blocks = nn.ModuleList(Block() for _ in range(4))`
Not this:   a list that is handed to `ModuleList`, `Sequential` or `add_module` afterwards; a list of layers that have an
            attribute of their own; a list of anything else.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, method, replaced

REGISTERS = ("add_module", "register_module", "setattr(self", "nn.ModuleList(self.", "nn.Sequential(*self.")


@lint(
    fix="keep them in an `nn.ModuleList` (or `nn.ModuleDict`)",
    layer="optimisation",
    stage="structure",
    confidence=0.95,
    watched=("hidden-parameters",),
)
def layers_in_plain_list(source: Python) -> Iterator[Hit]:
    for owner in source.modules.values():
        code = source.segment(owner)
        if any(word in code for word in REGISTERS) or "frozen" in code:
            continue
        for each in source.under(owner, ast.Assign):
            target = each.targets[0]
            if not _own(target) or source.owner(each) is not owner:
                continue
            text = ast.unparse(target)
            if _registered(code, text):
                continue
            if _holds_layers(source, each.value) or (_empty(each.value) and _filled(source, owner, text)):
                wraps = isinstance(each.value, ast.List | ast.ListComp) and not _empty(each.value)
                yield Hit(
                    each,
                    f"the layers in `{text}` are not registered: they are neither trained nor saved",
                    edits=_edits(source, each.value) if wraps else (),
                )


def _own(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"


def _registered(code: str, text: str) -> bool:
    """Whether the class hands the list to something that registers what is in it."""
    return any(
        f"{word}({star}{text}" in code for word in ("ModuleList", "Sequential", "ModuleDict") for star in ("", "*")
    )


def _holds_layers(source: Python, value: ast.expr) -> bool:
    if isinstance(value, ast.List | ast.Tuple):
        return bool(value.elts) and all(source.makes_module(each) for each in value.elts)
    if isinstance(value, ast.ListComp):
        return source.makes_module(value.elt)
    if isinstance(value, ast.Dict):
        return bool(value.values) and all(source.makes_module(each) for each in value.values)
    return isinstance(value, ast.DictComp) and source.makes_module(value.value)


def _empty(value: ast.expr) -> bool:
    return (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Dict) and not value.keys)


def _filled(source: Python, owner: ast.ClassDef, text: str) -> bool:
    added = [call.args[0] for call in source.under(owner, ast.Call) if method(call) == (text, "append") and call.args]
    return bool(added) and all(source.makes_module(each) for each in added)


def _edits(source: Python, value: ast.expr) -> tuple:  # type: ignore[type-arg]
    name = next(
        (name for name in ("nn", "torch.nn") if source.name(ast.parse(name, mode="eval").body) == "torch.nn"), ""
    )
    segment = source.segment(value)
    return (replaced(value, f"{name}.ModuleList({segment})"),) if name and segment else ()


BAD = (
    """\
from torch import nn
class Block(nn.Module):
    pass
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [Block() for _ in range(4)]
""",
    """\
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)]
""",
    """\
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = []
        for width in (4, 8):
            self.layers.append(nn.Linear(width, 8))
""",
)
GOOD = (
    """\
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])
        self.widths = [4, 8]
""",
    """\
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = []
        self.layers.append(nn.Linear(4, 4))
        self.body = nn.Sequential(*self.layers)
""",
    """\
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Linear(4, 4), nn.ReLU()]
        self.a = nn.Linear(1, 1)
        self.order = [self.a, self.a]
        self.body = nn.Sequential(*layers)
""",
    """\
from torch import nn
class Trainer:
    def __init__(self):
        self.models = [nn.Linear(4, 4), nn.Linear(4, 4)]
""",
)
