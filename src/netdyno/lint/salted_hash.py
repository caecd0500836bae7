"""A split or a seed hangs on `hash()`, which differs from process to process.

Looks for:  the built-in `hash` of a text, taken modulo something, compared, or used as a seed.
Wrong:      `hash(name) % 5 == 0`: Python salts the hash of text in each process, so the next run splits otherwise.
Right:      `zlib.crc32(name.encode()) % 5 == 0`
Not this:   `__hash__` methods; hashes of numbers; a file that fixes PYTHONHASHSEED.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python

SEEDS = ("manual_seed", "seed", "default_rng", "RandomState", "Random", "Generator")


@lint(
    fix="use a hash that is the same everywhere, such as `zlib.crc32(text.encode())`",
    layer="reproducibility",
    stage="data",
    confidence=0.9,
)
def salted_hash(source: Python) -> Iterator[Hit]:
    if "hash(" not in source.text or source.has_word("PYTHONHASHSEED"):
        return
    for call in source.of(ast.Call):
        if not isinstance(call.func, ast.Name) or call.func.id != "hash" or "hash" in source.own_names:
            continue
        scope = source.function(call)
        if len(call.args) != 1 or getattr(scope, "name", "") == "__hash__":
            continue
        use = _use(source, call)
        certain = _is_text(source, call.args[0])
        if use and certain is not None:
            says = f"`{ast.unparse(call)}` {use} is another number in every process"
            yield Hit(call, says, confidence=None if certain else REMARK)


def _use(source: Python, call: ast.Call) -> str:
    parent = source.parent(call)
    for _ in range(3):
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod | ast.BitAnd):
            return "taken modulo something"
        if isinstance(parent, ast.Call) and ast.unparse(parent.func).rpartition(".")[2] in SEEDS:
            return "as a seed"
        if isinstance(parent, ast.Call) and ast.unparse(parent.func) == "abs":
            parent = source.parent(parent)
            continue
        return ""
    return ""


def _is_text(source: Python, node: ast.expr) -> bool | None:
    """True for what is surely text, False for what may be, None for what is none."""
    node = source.origin(node)
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return True
    text = ast.unparse(node)
    if isinstance(node, ast.Call):
        return text.startswith(("str(", "repr(")) or text.endswith((".lower()", ".as_posix()"))
    if isinstance(node, ast.Constant | ast.Tuple | ast.BinOp):
        return None
    last = text.rpartition(".")[2].lower()
    return any(
        word in last for word in ("name", "path", "file", "url", "text", "word", "key", "uid", "user")
    ) or _over_names(source, node)


def _over_names(source: Python, node: ast.expr) -> bool:
    """Whether a name runs over something called names, paths or files."""
    if not isinstance(node, ast.Name):
        return False
    runs: list[ast.comprehension | ast.For] = [*source.of(ast.comprehension), *source.of(ast.For)]
    return any(
        ast.unparse(each.target) == node.id
        and any(word in ast.unparse(each.iter).lower() for word in ("name", "path", "file", "url"))
        for each in runs
    )


BAD = (
    "held = [hash(n) % 5 == 0 for n in names]\n",
    "import torch\ntorch.manual_seed(hash(f'{user}-{day}'))\n",
    "def is_train(path):\n    return abs(hash(path)) % 10 < 8\n",
)
GOOD = (
    "import zlib\nheld = [zlib.crc32(n.encode()) % 5 == 0 for n in names]\n",
    "class A:\n    def __hash__(self):\n        return hash(self.name) % 7\n",
    "bucket = hash(3) % 7\nsame = hash((1, 2))\n",
)
