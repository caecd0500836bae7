"""What can be changed in a running script: one file per change, named like the intervention of the same id."""

from collections.abc import Sequence
from typing import Any

from . import _base


def put_on(observer: Any, recipe: Sequence[_base.Change]) -> _base.Recipe:
    """A recipe that stays on for a whole run without orders.

    What needs no model and no optimizer is on at once; the rest comes on after the first update, when both are known.
    """
    return _base.begin(observer.view, observer.boundary, recipe)
