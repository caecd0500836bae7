"""Each loader worker draws the same random numbers.

Looks for:  a data set that makes a generator in `__init__` (`numpy.random.default_rng`, `random.Random`, `torch.Generator`)
            and draws from it in `__getitem__`, with a loader that has several workers and no `worker_init_fn`.
Wrong:      `self.rng = np.random.default_rng(0)` in `__init__`: every worker gets a copy in the same state.
Right:      make it in the worker, from `torch.utils.data.get_worker_info().seed`.
Not this:   loaders without workers; data sets that look at the worker's number; numbers that are drawn in `__init__`.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument, constant

GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState", "random.Random", "torch.Generator")


@lint(
    fix="make the generator in the worker, seeded with `torch.utils.data.get_worker_info().seed`",
    layer="data",
    stage="data",
    confidence=0.85,
)
def copied_generator(source: Python) -> Iterator[Hit]:
    loaders = [call for call in source.calls("torch.utils.data.DataLoader") if _works_apart(call)]
    if not loaders or source.has_word("get_worker_info", "worker_init_fn"):
        return
    for owner in source.of(ast.ClassDef):
        methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
        if "__init__" not in methods or "__getitem__" not in methods:
            continue
        for each in source.under(methods["__init__"], ast.Assign):
            target = ast.unparse(each.targets[0])
            made = isinstance(each.value, ast.Call) and source.name(each.value.func) in GENERATORS
            if made and target.startswith("self.") and f"{target}" in ast.unparse(methods["__getitem__"]):
                yield Hit(
                    each, f"each worker gets a copy of `{target}` in the same state, so all draw the same numbers"
                )


def _works_apart(call: ast.Call) -> bool:
    workers = argument(call, "num_workers", 5)
    if workers is None:
        return False
    value = constant(workers)
    return value > 1 if isinstance(value, int) else False


BAD = (
    """\
import numpy as np
from torch.utils.data import DataLoader, Dataset
class Crops(Dataset):
    def __init__(self):
        self.rng = np.random.default_rng(0)
    def __getitem__(self, i):
        return self.rng.normal(size=3)
loader = DataLoader(Crops(), batch_size=8, num_workers=4)
""",
)
GOOD = (
    """\
import numpy as np
from torch.utils.data import DataLoader, Dataset
class Crops(Dataset):
    def __init__(self):
        self.rng = np.random.default_rng(0)
    def __getitem__(self, i):
        return self.rng.normal(size=3)
loader = DataLoader(Crops(), batch_size=8)
""",
    """\
import numpy as np
from torch.utils.data import DataLoader, Dataset
class Crops(Dataset):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.offsets = rng.normal(size=9)
    def __getitem__(self, i):
        return self.offsets[i]
loader = DataLoader(Crops(), batch_size=8, num_workers=4)
""",
)
