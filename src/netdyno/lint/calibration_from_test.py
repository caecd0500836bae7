"""A quantisation is calibrated with what is named test data.

Looks for:  `trtexec --calib=...` whose file is named after a test set.
Wrong:      `--calib=test.cache`: the score on that set no longer says anything.
Right:      calibrate with a part of the training data.
Not this:   other names.
"""

import re
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._text import Text


@lint(
    fix="calibrate with a part of the training data",
    layer="deployment",
    stage="data",
    ledger=("C-078",),
    confidence=REMARK,  # a name proves nothing
)
def calibration_from_test(source: Text) -> Iterator[Hit]:
    for command in source.commands:
        named = command.flag("--calib") if command.program("trtexec") else None
        if named and re.search(r"(^|[_\-/.])test([_\-/.]|$)", named):
            yield Hit(command.line, f"`{named}` is named after the test data")


BAD = ("trtexec --onnx=m.onnx --int8 --calib=test.cache\n",)
GOOD = ("trtexec --onnx=m.onnx --int8 --calib=train_part.cache\n",)
