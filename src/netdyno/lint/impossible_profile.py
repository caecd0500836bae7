"""The shapes of an engine's profile contradict each other.

Looks for:  `trtexec` with `--minShapes`, `--optShapes` and `--maxShapes` where the middle one does not lie between the two.
Wrong:      `--minShapes=x:1x3x224x224 --optShapes=x:8x3x192x192 --maxShapes=x:16x3x224x224`
Right:      each axis of the middle one between its least and its largest
Not this:   equal shapes.
"""

import re
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._text import Text, Words


@lint(
    fix="give each axis of `--optShapes` the size that is served, between its least and its largest",
    layer="deployment",
    stage="failure",
    ledger=("C-070", "C-072"),
    confidence=0.95,
)
def impossible_profile(source: Text) -> Iterator[Hit]:
    for command in source.commands:
        if not command.program("trtexec"):
            continue
        least, best, most = (_shapes(command, f"--{which}Shapes") for which in ("min", "opt", "max"))
        for name, shape in best.items():
            low, high = least.get(name, shape), most.get(name, shape)
            if not len(low) == len(shape) == len(high) or any(
                not a <= b <= c for a, b, c in zip(low, shape, high, strict=True)
            ):
                yield Hit(
                    command.line, f"the profile of `{name}` is impossible: {low} to {high} with {shape} between them"
                )


def _shapes(command: Words, flag: str) -> dict[str, tuple[int, ...]]:
    text = command.flag(flag) or ""
    found = re.findall(r"([^:,=]+):(\d+(?:x\d+)*)", text)
    return {name: tuple(int(part) for part in shape.split("x")) for name, shape in found}


BAD = ("trtexec --onnx=m.onnx --minShapes=x:1x3x224x224 --optShapes=x:8x3x192x192 --maxShapes=x:16x3x224x224\n",)
GOOD = ("trtexec --onnx=m.onnx --minShapes=x:1x3x192x192 --optShapes=x:1x3x192x192 --maxShapes=x:8x3x192x192\n",)
