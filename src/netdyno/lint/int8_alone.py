"""Layers that cannot run in INT8 fall back to FP32.

Looks for:  `trtexec --int8` without `--fp16`, `--bf16` or `--best`.
Wrong:      `trtexec --int8`
Right:      `trtexec --int8 --fp16`
Not this:   a network whose types are fixed (`--stronglyTyped`).
"""

from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._text import Text


@lint(
    fix="allow both: `--int8 --fp16`",
    layer="deployment",
    stage="speed",
    ledger=("C-079",),
    confidence=REMARK,  # how much it wins is for a measurement to say
)
def int8_alone(source: Text) -> Iterator[Hit]:
    for command in source.commands:
        others = ("--fp16", "--bf16", "--best", "--stronglyTyped")
        if (
            command.program("trtexec")
            and command.flag("--int8") is not None
            and not any(command.flag(each) is not None for each in others)
        ):
            yield Hit(command.line, "layers that cannot run in INT8 fall back to FP32 here")


BAD = ("trtexec --onnx=model.onnx --int8 --saveEngine=a.plan\n",)
GOOD = ("trtexec --onnx=model.onnx --int8 --fp16 --saveEngine=a.plan\n",)
