"""What every page of a document shares: one file that opens from disk, asks no network, and holds the document it shows."""

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from netdyno.reports._units import plain

if TYPE_CHECKING:
    from collections.abc import Callable


def rendered(
    template: str,
    *,
    page: object,
    document: Any,
    filters: "dict[str, Callable[..., Any]] | None" = None,
    **more: object,
) -> str:
    """The page that a template makes of `page`, with `document` inside as JSON; `more` are further names that it knows."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    shelf = Environment(
        loader=PackageLoader("netdyno.reports", "_templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    shelf.filters |= {"drawn": Markup, **(filters or {})}  # for our charts only: matplotlib escapes their text
    script = shelf.loader.get_source(shelf, "report.js")[0]  # type: ignore[union-attr]
    return shelf.get_template(template).render(
        page=page,
        style=Markup(shelf.get_template("report.css").render()),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=Markup(embedded(document)),  # noqa: S704 - `embedded` leaves no angle bracket
        **more,
    )


def embedded(document: Any) -> str:
    """A document as JSON that cannot end the script element it stands in: no angle bracket is left."""
    told = msgspec.json.encode(document)
    text = told.decode()
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    assert json.loads(text) == json.loads(told)
    return text


def _finalized(value: object) -> object:
    """Strings on their way into the page lose control characters, and a number keeps its unit on its line."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _UNITS.sub("\u00a0", plain(value))


_UNITS = re.compile(r"(?<=\d) (?=(?:%|ns|µs|ms|s|min|h|B|kB|MB|GB|TB|FLOP|[kMGT]FLOP)(?:\W|$))")
