"""What every page of a document shares: one file that opens from disk, asks no network, and holds the document it shows."""

import base64
import hashlib
import json
from typing import Any

import msgspec

from netdyno.reports.html import _finalized, _source


def rendered(template: str, *, page: object, document: Any, filters: dict[str, Any] | None = None) -> str:
    """The page that a template makes of `page`, with `document` inside as JSON."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    shelf = Environment(
        loader=PackageLoader("netdyno.reports", "_templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=_finalized,
    )  # fmt: skip
    shelf.filters |= {"drawn": Markup, **(filters or {})}  # matplotlib escapes what it writes
    script = _source(shelf, "report.js")
    return shelf.get_template(template).render(
        page=page,
        style=Markup(shelf.get_template("report.css").render()),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=Markup(embedded(document)),  # noqa: S704 - `embedded` leaves no angle bracket
    )


def embedded(document: Any) -> str:
    """A document as JSON that cannot end the script element it lies in."""
    text = msgspec.json.encode(document).decode()
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    assert json.loads(text) == json.loads(msgspec.json.encode(document))
    return text
