"""The samples of an image folder are changed, and its targets are not.

Looks for:  `folder.samples = ...` on an `ImageFolder` or `DatasetFolder`, in a file that never sets `targets`.
Wrong:      `folder.samples = [s for s in folder.samples if keep(s)]`: `targets` and `imgs` still hold the old list.
Right:      `torch.utils.data.Subset(folder, indices)`, or set `targets` as well.
Not this:   a file that sets both; reading the list.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python


@lint(
    fix="take a `Subset`, or set `targets` and `imgs` as well",
    layer="data",
    stage="data",
    ledger=("C-037",),
    confidence=0.8,
)
def stale_targets(source: Python) -> Iterator[Hit]:
    if not source.has_word("ImageFolder", "DatasetFolder") or ".targets =" in source.text:
        return
    for each in source.of(ast.Assign):
        target = each.targets[0]
        if isinstance(target, ast.Attribute) and target.attr == "samples":
            made = source.made(target.value) if isinstance(target.value, ast.Name | ast.Attribute) else None
            if made is not None and source.name(made.func).endswith((".ImageFolder", ".DatasetFolder")):
                yield Hit(each, f"`{ast.unparse(target.value)}.targets` still holds the labels of the old list")


BAD = (
    """\
from torchvision.datasets import ImageFolder
folder = ImageFolder("images")
folder.samples = folder.samples[:100]
""",
)
GOOD = (
    """\
from torchvision.datasets import ImageFolder
folder = ImageFolder("images")
folder.samples = folder.samples[:100]
folder.targets = folder.targets[:100]
""",
    "from torchvision.datasets import ImageFolder\nfolder = ImageFolder('images')\nprint(folder.samples[0])\n",
)
