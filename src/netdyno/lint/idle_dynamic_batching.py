"""Dynamic batching is configured for a model that takes no batches.

Looks for:  `dynamic_batching` in a Triton configuration (`.pbtxt`) with `max_batch_size: 0` or without it, and options
            written as assignments.
Wrong:      `max_batch_size: 0` with `dynamic_batching { }`
Right:      `max_batch_size: 8` and `dynamic_batching { max_queue_delay_microseconds: 100 }`
Not this:   a configuration without dynamic batching.
"""

import re
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._text import Text


@lint(
    fix="set `max_batch_size` above zero, and write options as `name: value`",
    layer="deployment",
    stage="settings",
    ledger=("C-033",),
    confidence=0.85,
)
def idle_dynamic_batching(source: Text) -> Iterator[Hit]:
    asked = source.search(r"\bdynamic_batching\b")
    if not source.name.endswith(".pbtxt") or not asked:
        return
    size = re.search(r"max_batch_size\s*:\s*(\d+)", source.text)
    if size is None or int(size[1]) == 0:
        yield Hit(asked[0][0], "no batch can form: `max_batch_size` is " + ("missing" if size is None else "0"))
    for line, text in source.search(r"max_queue_delay_microseconds\s*="):
        yield Hit(line, f"`{text.strip()}` is no line of this format")


FILE = "config.pbtxt"
BAD = (
    "max_batch_size: 0\ndynamic_batching { max_queue_delay_microseconds: 100 }\n",
    "max_batch_size: 8\ndynamic_batching {\n  max_queue_delay_microseconds = 100\n}\n",
)
GOOD = ("max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 100 }\n", "max_batch_size: 0\n")
