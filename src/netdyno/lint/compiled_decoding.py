"""A function that reads or decodes images is compiled.

Looks for:  `@torch.compile` on `__getitem__`, or on a function that opens images.
Wrong:      `@torch.compile def __getitem__(...)`: nothing of it can be compiled, and every call breaks the graph.
Right:      vectorise it, or do the tensor part on batches and compile that.
Not this:   functions of tensors.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python

OPENS = ("PIL.Image.open", "cv2.imread", "cv2.imdecode", "imageio.imread", "skimage.io.imread")


@lint(
    fix="compile functions of tensors only; decode in the loader's workers",
    layer="compute",
    stage="speed",
    ledger=("C-095",),
    confidence=0.8,
)
def compiled_decoding(source: Python) -> Iterator[Hit]:
    for each in source.of(ast.FunctionDef):
        marks = [mark.func if isinstance(mark, ast.Call) else mark for mark in each.decorator_list]
        if not any(source.name(mark) == "torch.compile" for mark in marks):
            continue
        opens = any(source.name(call.func) in OPENS for call in source.under(each, ast.Call))
        if each.name == "__getitem__" or opens:
            yield Hit(each, f"`{each.name}` works on files and objects, of which nothing can be compiled")


BAD = ("import torch\nfrom PIL import Image\n@torch.compile\ndef read(path):\n    return Image.open(path)\n",)
GOOD = ("import torch\n@torch.compile\ndef scale(x):\n    return x / 255\n",)
