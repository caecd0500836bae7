"""The page of all audits: `python -m netdyno.audits._page > docs/audits.md`."""

import inspect
import sys

from netdyno import plugins
from netdyno.audits._base import Audited, audits

HEAD = """\
# Audits

What `netdyno data` looks for. This page is written by `python -m netdyno.audits._page > docs/audits.md`; how to read an answer is told
in [look at the data first](how-to/look-at-data.md).
"""


def render() -> str:
    """The whole page."""
    modules = dict(plugins.modules("audits"))
    found = sorted((each for each in audits() if isinstance(each, Audited)), key=lambda each: each.id)
    return "\n".join([HEAD, f"{len(found)} audits.\n", *(_part(each, modules[each.id]) for each in found)])


def _part(each: Audited, module: object) -> str:
    looks = ", ".join(each.modalities) or "data of every kind"
    remark = " A remark, never wrong by itself." if each.stage == "note" else ""
    return f"## {each.id}\n\n```text\n{inspect.getdoc(module)}\n```\n\nLooks at: {looks}.{remark}\n"


if __name__ == "__main__":
    sys.stdout.write(render())
