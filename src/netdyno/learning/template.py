"""A training script from a recipe: it runs as it is, and needs nothing of netdyno."""

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import libcst as cst
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from netdyno.errors import NetdynoError, TargetError
from netdyno.knobs._base import read
from netdyno.records.trial import Change
from netdyno.targets.workload import Workload, load

FOLDER = Path(__file__).parent
# Where no study was named: customary, and not proven for this workload. The script says so.
SKELETON = (
    Change(id="schedule", settings={"course": "one-cycle", "peak": 1.0}),
    Change(id="clip", settings={"rule": "norm", "value": 1.0}),
)
# What a script has of its own; where the user's file has such a name too, ours gets an underscore.
OWN = (
    "seed_everything", "seed_worker", "Augmented", "as_dataset", "data", "loaders", "swap", "with_dropout", "build_model",
    "build_optimizer", "build_schedule", "forward", "judged_loss", "training_loss", "metric", "mixed", "placed", "evaluate",
    "save", "random_states", "restore_random_states", "main",
)  # fmt: skip
CONSTANTS = ("BATCH_SIZE", "EPOCHS", "PATIENCE", "MIN_DELTA", "CLASSES", "AUGMENT")
# Of a declared loader the script decides itself about these.
DECIDED = (
    "num_workers", "shuffle", "drop_last", "pin_memory", "prefetch_factor", "persistent_workers", "multiprocessing_context",
    "worker_init_fn", "sampler",
)  # fmt: skip
# Parts of a declaration that the script needs as functions; what is a lambda there gets a name.
FUNCTIONS = ("model", "train", "val", "loss", "metric", "optimizer", "augment", "forward", "collate")
DECLARED = (*FUNCTIONS, "loader")
# What stands behind each of these knobs' own code is where it goes; the names that it reads are there by then.
IN_LOSS = ("focal-loss", "label-smoothing", "class-weights")
ON_BATCH = ("mixup", "cut-mix", "cutout")
ON_OPTIMIZER = ("learning-rate", "momentum", "weight-decay")
AFTER_MODEL = ("initialisation", "batchnorm-momentum")
SWAPPED = ("activation", "normalisation", "dropout")
OTHERS = ("optimizer", "schedule", "warmup", "clip", "batch-size", "early-stopping", "augmentation", "weighted-sampler")
KNOWN = (*IN_LOSS, *ON_BATCH, *ON_OPTIMIZER, *AFTER_MODEL, *SWAPPED, *OTHERS)


class Written(NamedTuple):
    """The script, and the changes of the recipe that it does not hold, each with what a person has to do."""

    text: str
    left_out: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The user's own code: the text of the file without the declaration, and what was declared, as expressions."""

    text: str
    declared: dict[str, str]
    names: frozenset[str] = field(default_factory=frozenset)


def write(reference: str, recipe: Sequence[Change] | None = None, *, study: str = "") -> Written:
    """The training script of a workload under a recipe of knobs; without one, with a customary course and clipping.

    Raises TargetError where the declaration cannot be read as source, or leans on code that would be netdyno's.
    """
    workload = load(reference)
    name = reference.rpartition(":")[2] if ":" in reference and not reference.startswith("garage:") else ""
    source = read_source(workload, name)
    chosen = SKELETON if recipe is None else tuple(recipe)
    left_out = [f"{change.id}: {_one_line(read(change).code())}" for change in chosen if change.id not in KNOWN]
    if "sampler" in workload.loader:
        left_out.append("the sampler of the declared loader")
    text = _rendered(
        workload, source, chosen, _facts(workload), study=study, proven=recipe is not None, left_out=left_out
    )
    return Written(text, tuple(left_out))


class Facts(NamedTuple):
    """What the data say of the task."""

    classes: int  # 0: numbers are learned


def _facts(workload: Workload) -> Facts:
    train, _ = workload.datasets()
    if not hasattr(train, "__getitem__"):
        raise TargetError(
            f"cannot write a script from `{workload.name}`",
            because="its training data can only be read in order",
            hint="give the data a length and an index, or write the loop of such a stream by hand",
        )
    if isinstance(train, TensorDataset):
        target = train.tensors[-1]
        return Facts(0 if target.is_floating_point() else 1 + int(target.max()))
    count = min(len(train), MOST_TARGETS)  # type: ignore[arg-type]
    targets = [train[at][-1] for at in range(count)]
    if any(isinstance(each, float) or (isinstance(each, Tensor) and each.is_floating_point()) for each in targets):
        return Facts(0)
    return Facts(1 + max(int(torch.as_tensor(each).max()) for each in targets))


# Targets that are read to count the classes of a data set that is no tensor.
MOST_TARGETS = 20_000


def read_source(workload: Workload, name: str = "") -> Source:
    """The file in which a workload is declared, taken apart; `name` is that of the declaration where there are several.

    Raises TargetError where that cannot be done.
    """
    module = _module_of(workload)
    try:
        text = inspect.getsource(module)
    except (OSError, TypeError) as error:
        raise _unreadable(workload, "its source cannot be read") from error
    finder = _Finder()
    tree = cst.parse_module(text)
    tree.visit(finder)
    declared = finder.declared.get(name) or (
        next(iter(finder.declared.values())) if len(finder.declared) == 1 else None
    )
    if declared is None:
        raise _unreadable(workload, f"`{Path(module.__file__ or '').name}` calls no `Workload(…)` at its top level")
    left = tree.visit(_Without(finder.statements))
    if "netdyno" in _names_in(left):
        raise TargetError(
            f"cannot write a script from `{workload.name}`",
            because="its file uses other parts of netdyno than `Workload`",
            hint="put what it needs into its own file; of the built-in workloads, digits, lstm, recommender and transformer stand alone",
        )
    return Source(text=left.code.strip() + "\n", declared=declared, names=frozenset(_names_in(left)))


def _module_of(workload: Workload) -> Any:
    module = inspect.getmodule(workload.train) or inspect.getmodule(workload.model)
    if module is None or module.__name__.startswith("torch"):
        raise _unreadable(workload, "its model and data come from no file")
    return importlib.import_module(module.__name__) if module.__name__ != "__main__" else module


def _unreadable(workload: Workload, because: str) -> TargetError:
    return TargetError(
        f"cannot write a script from `{workload.name}`",
        because=because,
        hint="declare it in a work.py of its own: `Digits = Workload(model=…, train=…)`",
    )


class _Finder(cst.CSTVisitor):
    """The top-level statements that call Workload, and the arguments of each as text."""

    def __init__(self) -> None:
        self.declared: dict[str, dict[str, str]] = {}
        self.statements: list[cst.CSTNode] = []

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> bool:  # noqa: N802
        for small in node.body:
            value = small.value if isinstance(small, cst.Assign | cst.AnnAssign) else None
            if isinstance(value, cst.Call) and _called(value) == "Workload":
                self.statements.append(node)
                target = small.targets[0].target if isinstance(small, cst.Assign) else small.target  # type: ignore[attr-defined]
                self.declared[_code(target)] = {
                    argument.keyword.value: _code(argument.value)
                    for argument in value.args
                    if argument.keyword is not None
                }
        return False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802, ARG002
        return False


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


def _called(call: cst.Call) -> str:
    function = call.func
    return (
        function.value
        if isinstance(function, cst.Name)
        else function.attr.value
        if isinstance(function, cst.Attribute)
        else ""
    )


class _Without(cst.CSTTransformer):
    """The file without declarations, imports of netdyno, and what it does when it is run itself."""

    def __init__(self, statements: Sequence[cst.CSTNode]) -> None:
        self.statements = statements

    def leave_SimpleStatementLine(self, original_node: Any, updated_node: Any) -> Any:  # noqa: N802
        gone = any(original_node is each for each in self.statements) or all(map(_ours, original_node.body))
        return cst.RemoveFromParent() if gone else updated_node

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> Any:  # noqa: N802
        return cst.RemoveFromParent() if "__name__" in _code(original_node.test) else updated_node


def _ours(small: cst.CSTNode) -> bool:
    """An import of what a declaration is written with, and of nothing else."""
    if isinstance(small, cst.Import):
        return all(_code(name.name) == "netdyno" for name in small.names)
    if isinstance(small, cst.ImportFrom) and small.module is not None and not isinstance(small.names, cst.ImportStar):
        ours = _code(small.module).partition(".")[0] == "netdyno"
        return ours and all(name.name.value in ("Workload", "Tolerance") for name in small.names)
    return False


def _names_in(tree: cst.Module) -> set[str]:
    """All names in the code, comments and strings left out."""

    class Names(cst.CSTVisitor):
        def __init__(self) -> None:
            self.seen: set[str] = set()

        def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
            self.seen.add(node.value)

    names = Names()
    tree.visit(names)
    return names.seen


def _functions(source: Source) -> str:
    """Each part of the declaration under a name that the loop calls: lambdas become functions."""
    parts = []
    for name in FUNCTIONS:
        expression = source.declared.get(name)
        if expression is None or expression == "None":
            continue
        wanted = f"declared_{name}"
        node = cst.parse_expression(expression)
        if isinstance(node, cst.Lambda):
            arguments = cst.Module([]).code_for_node(node.params)
            body = cst.Module([]).code_for_node(node.body)
            parts.append(f"def {wanted}({arguments}):\n    return {body}")
        else:
            parts.append(f"{wanted} = {expression}")
    return "\n\n\n".join(parts)


def _rendered(
    workload: Workload,
    source: Source,
    recipe: Sequence[Change],
    facts: Facts,
    *,
    study: str,
    proven: bool,
    left_out: Iterable[str],
) -> str:
    from jinja2 import Environment, StrictUndefined

    # It writes Python, where nothing is to be escaped.
    shelf = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)  # noqa: S701
    shelf.filters["indented"] = lambda text, by: textwrap.indent(text, " " * by)
    doc, imports, body = _split(source.text)
    head, mark, loop = (
        shelf.from_string((FOLDER / "template.py.jinja").read_text(encoding="utf-8"))
        .render(
            name=workload.name, doc=doc, imports=imports, body=body, functions=_functions(source), declared=source.declared,
            facts=facts, plan=fragments(recipe, batch_size=workload.batch_size), proven=proven,
            loader={key: value for key, value in workload.loader.items() if key not in DECIDED and isinstance(value, bool | int | float | str)},
            shuffle=workload.loader.get("shuffle", True), drop_last=workload.loader.get("drop_last", True),
            epochs=workload.epochs, threads=workload.threads, study=study, left_out=tuple(left_out),
            recipe=[(change.id, ", ".join(f"{key} {value}" for key, value in change.settings.items())) for change in recipe],
        )
        .partition(LOOP)
    )  # fmt: skip
    return head + mark + _apart(loop, source.names)


# Above it stands the user's own code, below it ours.
LOOP = "# How it is trained"


def _apart(loop: str, taken: Iterable[str]) -> str:
    """Our part of the script with other names where the user's file has the same."""
    names = set(taken)
    for name in names & set(OWN):
        loop = re.sub(rf"(?<![.\w]){name}\(", f"{name}_(", loop)
    for name in names & set(CONSTANTS):
        loop = re.sub(rf"\b{name}\b", f"{name}_", loop)
    return loop.replace("seed_worker,", "seed_worker_,") if "seed_worker" in names else loop


def _split(text: str) -> tuple[str, str, str]:
    """A file's docstring, the imports of its top level, and the rest."""
    tree = cst.parse_module(text)
    doc = tree.get_docstring() or ""
    imports: list[str] = []
    body = [f"{line.comment.value}\n" for line in tree.header if line.comment is not None]
    for statement in tree.body:
        code = cst.Module([statement]).code
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString | cst.ConcatenatedString):
            continue
        if isinstance(small, cst.Import | cst.ImportFrom):
            imports.append(code.strip())
        else:
            body.append(code)
    return doc, "\n".join(imports), "".join(body).strip()


class Plan(NamedTuple):
    """Where each knob's code goes; an empty string where there is none."""

    batch_size: int
    rate_factor: str
    model: str
    swap: str
    optimizer: str
    after_optimizer: str
    schedule: str
    reads_validation: bool
    loss: str
    on_batch: str
    images: bool
    augment: str
    no_augment: bool
    sampler: str
    before_clip: str
    clip: str
    patience: int
    min_delta: float
    needs: tuple[str, ...]  # imports


def fragments(recipe: Sequence[Change], *, batch_size: int) -> Plan:
    """The knobs of a recipe as pieces of a script. Raises NetdynoError for what contradicts itself."""
    by_id = {change.id: change for change in recipe}
    code = {name: read(change).code() for name, change in by_id.items()}
    losses = [name for name in IN_LOSS if name in code]
    if len(losses) > 1:
        raise NetdynoError(
            "cannot write two losses into one script",
            because=f"the recipe holds `{losses[0]}` and `{losses[1]}`",
            hint="`netdyno learn --skip` one of them",
        )
    needs = {line for text in code.values() for line in _needed(text)}
    clip = code.get("clip", "")
    before, _, clip_code = clip.partition("# between backward and step\n") if "norms = " in clip else ("", "", clip)
    sizes = by_id.get("batch-size")
    stop = by_id.get("early-stopping")
    augmentation = by_id.get("augmentation")
    return Plan(
        batch_size=int(sizes.settings["size"]) if sizes else batch_size,  # type: ignore[arg-type]
        rate_factor=_rate_factor(sizes, batch_size),
        model="\n".join(code[name] for name in AFTER_MODEL if name in code),
        swap="\n".join(_swap(by_id[name]) for name in SWAPPED if name in by_id),
        optimizer="\n".join(line for line in code.get("optimizer", "").splitlines() if not line.startswith("import ")).strip(),
        after_optimizer="\n".join(code[name] for name in ON_OPTIMIZER if name in code),
        schedule=_schedule(code),
        reads_validation="ReduceLROnPlateau" in code.get("schedule", ""),
        loss=code[losses[0]] if losses else "",
        on_batch="\n".join(code[name] for name in ("cutout", "mixup", "cut-mix") if name in code),
        images=any(name in code for name in ("cutout", "cut-mix")) or (augmentation is not None and augmentation.settings.get("kind") != "off"),
        augment=_augment(augmentation, code),
        no_augment=augmentation is not None,
        sampler=_sampler(code),
        before_clip=_told(before),
        clip=_told(clip_code),
        patience=int(stop.settings["patience"]) if stop else 0,  # type: ignore[arg-type]
        min_delta=float(stop.settings["min_delta"]) if stop else 0.0,  # type: ignore[arg-type]
        needs=tuple(sorted(needs)),
    )  # fmt: skip


def _needed(code: str) -> Iterable[str]:
    for module in ("kornia", "math", "collections"):
        if f"{module}." in code:
            yield f"import {module}"
    if "np." in code:
        yield "import numpy as np"
    yield from (
        line.strip() for line in code.splitlines() if line.startswith("import ") and line.strip() != "import torch"
    )


def _rate_factor(change: Change | None, batch_size: int) -> str:
    if change is None:
        return ""
    ratio = float(change.settings["size"]) / batch_size  # type: ignore[arg-type]
    factor = {"linear": ratio, "sqrt": ratio**0.5}.get(str(change.settings.get("scaling")), 1.0)
    return "" if factor == 1.0 else f"{factor:.6g}"


def _schedule(code: dict[str, str]) -> str:
    """The course of the learning rate, behind a warm-up where there is one."""
    course, warm = code.get("schedule", ""), code.get("warmup", "")
    if not warm or "OneCycleLR" in course or "ReduceLROnPlateau" in course:
        # One-cycle warms up by itself; with ten updates or fewer its first phase would have no length.
        return _told((course or warm).replace("total_steps=updates", "total_steps=max(updates, 20)"))
    if not course:
        return _told(warm)
    return _told(
        course.partition("\n\nscheduler =")[0].rstrip() + "\n\n\n"
        + warm.replace("return 1.0  # where there is a course: course(at - warmup, updates - warmup)", "return course(at - warmup, updates - warmup)")
    )  # fmt: skip


def _augment(change: Change | None, code: dict[str, str]) -> str:
    if change is None or change.settings.get("kind") == "off":
        return ""
    return code["augmentation"].splitlines()[0].partition("augment = ")[2]


def _sampler(code: dict[str, str]) -> str:
    return "\n".join(code.get("weighted-sampler", "").splitlines()[:2])


def _told(code: str) -> str:
    """Code without the remarks that say where it goes: it is there."""
    lines = [
        line.partition("  # ")[0]
        if "# step it" in line or "# between" in line or "# import" in line or "# before the first" in line
        else line
        for line in code.splitlines()
    ]
    return "\n".join(line for line in lines if not line.lstrip().startswith("# step it")).strip("\n")


def _swap(change: Change) -> str:
    """What a knob that changes layers does, as a statement about `model`."""
    settings = change.settings
    if change.id == "activation":
        return f"swap(model, (nn.ReLU, nn.GELU, nn.SiLU, nn.LeakyReLU, nn.ELU, nn.Tanh), lambda layer: nn.{settings['kind']}())"
    if change.id == "normalisation":
        if settings["kind"] == "batch":
            return "# batch normalisation behind each convolution: insert nn.BatchNorm2d in the model"
        groups = "1" if settings["kind"] == "layer" else "math.gcd(layer.num_features, 8)"
        return f"swap(model, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), lambda layer: nn.GroupNorm({groups}, layer.num_features))"
    return f"with_dropout(model, {settings['share']})"


def _one_line(code: str) -> str:
    lines = [line for line in code.splitlines() if line.strip()]
    return lines[0] if len(lines) == 1 else f"{lines[0]} …"
