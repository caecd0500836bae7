"""What a finding's fix would do, done from outside for a whole run: one file, one remedy. Experiments compare runs with and without."""

from collections.abc import Mapping, Sequence
from typing import Any

from . import _base


def put_on(observer: Any, remedies: Sequence[Mapping[str, Any]]) -> None:
    """Take effect from the start of the script to its end. Raises LookupError for what there is not."""
    for remedy in remedies:
        _base.find(remedy["id"]).put_on(observer, remedy.get("settings") or {})
