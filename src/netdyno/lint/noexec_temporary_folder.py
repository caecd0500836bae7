"""The temporary folder is mounted so that nothing in it may run.

Looks for:  `mount` with `noexec` for `/tmp` or `/var/tmp`.
Wrong:      `mount -o remount,noexec /tmp`: kernels that are compiled there cannot be loaded.
Right:      another folder for them: `TORCHINDUCTOR_CACHE_DIR`, `TRITON_CACHE_DIR`, `TMPDIR`
Not this:   other folders; a script that sets one of these.
"""

from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._text import Text

ELSEWHERE = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR")


@lint(
    fix="give compiled kernels a folder of their own: `TORCHINDUCTOR_CACHE_DIR` and `TRITON_CACHE_DIR`",
    layer="compute",
    stage="failure",
    ledger=("C-025",),
    confidence=0.75,
)
def noexec_temporary_folder(source: Text) -> Iterator[Hit]:
    if any(word in source.text for word in ELSEWHERE):
        return
    for command in source.commands:
        temporary = any(word in {"/tmp", "/var/tmp", "/tmp/", "/var/tmp/"} for word in command.words)  # noqa: S108
        if command.program("mount") and "noexec" in command.text and temporary:
            yield Hit(command.line, "kernels that are compiled in the temporary folder cannot be loaded from it")


BAD = ("sudo mount -o remount,noexec /tmp\n",)
GOOD = ("mount -o remount,noexec /data\n", "export TRITON_CACHE_DIR=/cache\nmount -o remount,noexec /tmp\n")
