"""An engine is built and not kept.

Looks for:  `trtexec --onnx=...` with neither `--saveEngine` nor `--loadEngine`.
Wrong:      `trtexec --onnx=model.onnx --fp16`: it takes minutes, and nothing is left.
Right:      `--saveEngine=model.plan --warmUp=500 --duration=10 --exportTimes=times.json`
Not this:   a run of an engine that exists; a look at the options.
"""

from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._text import Text


@lint(
    fix="add `--saveEngine=model.plan`",
    layer="deployment",
    stage="note",
    ledger=("C-073",),
    confidence=0.5,  # a build may be only a test of it
)
def unsaved_engine(source: Text) -> Iterator[Hit]:
    for command in source.commands:
        if not command.program("trtexec") or command.flag("--onnx") is None:
            continue
        if command.flag("--saveEngine") is None and command.flag("--loadEngine") is None:
            yield Hit(command.line, "the engine that is built here is not kept")


BAD = ("trtexec --onnx=model.onnx \\\n  --fp16\n",)
GOOD = ("trtexec --onnx=model.onnx \\\n  --saveEngine=model.plan\n", "trtexec --loadEngine=model.plan\n")
