"""cuDNN is asked for under a name that no package has.

Looks for:  `cudnn==...` in a list of requirements or behind `pip install`.
Wrong:      `cudnn==8.9.2.26`
Right:      `nvidia-cudnn-cu12==...`, the version that the installed PyTorch names
Not this:   conda, where `cudnn` exists.
"""

import re
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._text import Text


@lint(
    fix="name `nvidia-cudnn-cu12` in the version that your PyTorch asks for, or leave it to PyTorch",
    layer="reproducibility",
    stage="failure",
    ledger=("C-029",),
    confidence=0.9,
)
def misnamed_cudnn(source: Text) -> Iterator[Hit]:
    if source.name.startswith("requirements") and source.name.endswith(".txt"):
        for line, _ in source.search(r"^\s*cudnn\s*(==|>=|~=|$)"):
            yield Hit(line, "there is no package `cudnn` for pip")
    for command in source.commands:
        pip = "install" in command.words and any(
            re.fullmatch(r"pip3?(\.exe)?", word.rpartition("/")[2]) for word in command.words
        )
        if pip and any(re.match(r"cudnn(==|>=|~=|$)", word) for word in command.words):
            yield Hit(command.line, "there is no package `cudnn` for pip")


BAD = ("pip install torch cudnn==8.9.2.26\n",)
GOOD = ("pip install nvidia-cudnn-cu12==9.1.0.70\n", "conda install cudnn=8.9\n")
