"""The power mode is set and nobody looks whether it was.

Looks for:  `system("nvpmodel ...")` or `os.system("nvpmodel ...")` whose answer is thrown away.
Wrong:      `system("nvpmodel -m 1");`: it needs rights, blocks, and may fail.
Right:      a service with those rights and a hysteresis, which checks the answer
Not this:   shell scripts, where `set -e` stops; a call whose answer is used.
"""

from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._text import Text


@lint(
    fix="check the answer, and leave switching to a service with a hysteresis",
    layer="deployment",
    stage="use",
    ledger=("C-083",),
    confidence=REMARK,
)
def unchecked_power_mode(source: Text) -> Iterator[Hit]:
    for line, _ in source.search(r"^\s*(os\.|std::)?system\(\s*[\"'](sudo )?nvpmodel"):
        yield Hit(line, "the power mode is set, and whether it was is not looked at")


FILE = "watch.cpp"
BAD = ('system("nvpmodel -m 1");\n',)
GOOD = ('if (system("nvpmodel -m 1") != 0) throw 1;\n',)
