"""A look at data as one HTML file that opens from disk: thumbnails, histograms and the document are inside."""

import base64
import hashlib
import json
import re
from typing import NamedTuple

import msgspec

from netdyno.records.audit import Audit
from netdyno.reports import _audit as told
from netdyno.reports.html import _finalized, _source

# Only what a PNG in base64 can hold goes into an address.
BASE64 = re.compile(r"[A-Za-z0-9+/=]+")


class PageInfo(NamedTuple):
    """All that the page shows. The template formats and decides nothing."""

    audit: Audit
    info: told.AuditInfo
    picture: str
    neighbours: str


def page_info(audit: Audit) -> PageInfo:
    """What is to be shown."""
    drawn = (picture(audit.pictures.get(name, "")) for name in ("splits", "neighbours"))
    return PageInfo(audit, told.audit_info(audit), *drawn)


def render(audit: Audit) -> str:
    """The page, complete in itself; it asks no network for anything."""
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
    shelf.filters |= {"picture": picture, "confidence": told.confidence}
    script = _source(shelf, "report.js")
    return shelf.get_template("audit.html").render(
        page=page_info(audit),
        style=Markup(shelf.get_template("report.css").render()),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=Markup(_embedded(audit)),  # noqa: S704 - `_embedded` leaves no angle bracket
    )


def picture(packed: str) -> str:
    """The address of a PNG inside the page; of anything else none."""
    return f"data:image/png;base64,{packed}" if BASE64.fullmatch(packed) else ""


def _embedded(audit: Audit) -> str:
    text = msgspec.json.encode(audit).decode()
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    assert json.loads(text) == json.loads(msgspec.json.encode(audit))
    return text
