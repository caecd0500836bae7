"""`trtexec` is given options that its recent versions have removed.

Looks for:  `--workspace`, `--strictTypes`, `--explicitBatch`, `--buildOnly`, `--maxBatch` and `--batch` of `trtexec`.
Wrong:      `trtexec --workspace=2048`
Right:      `trtexec --memPoolSize=workspace:2048`
Not this:   other programs; `--skipInference`, which came in the place of `--buildOnly`.
"""

from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._text import Text

GONE = {
    "--workspace": "`--memPoolSize=workspace:N`",
    "--strictTypes": "nothing, or `--precisionConstraints`",
    "--explicitBatch": "nothing: batches are always explicit",
    "--buildOnly": "`--skipInference`",
    "--maxBatch": "`--minShapes`, `--optShapes`, `--maxShapes`",
}


@lint(
    fix="use the options of your version: `trtexec --help` lists them",
    layer="deployment",
    stage="failure",
    ledger=("C-071", "C-074"),
    confidence=0.75,
)
def removed_trtexec_flags(source: Text) -> Iterator[Hit]:
    for command in source.commands:
        for flag, instead in GONE.items() if command.program("trtexec") else ():
            if command.flag(flag) is not None:
                yield Hit(command.line, f"`{flag}` is gone in TensorRT 10", f"write {instead}")


BAD = ("trtexec --onnx=model.onnx --workspace=2048 --saveEngine=a.plan\n",)
GOOD = (
    "trtexec --onnx=model.onnx --memPoolSize=workspace:2048 --saveEngine=a.plan\n",
    "make --workspace=2048\n",
)
