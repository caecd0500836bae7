"""A look at data as one HTML file that opens from disk: thumbnails, histograms and the document are inside."""

import re
from typing import NamedTuple

from netdyno.records.audit import Audit
from netdyno.reports import _audit as told
from netdyno.reports._page import rendered

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
    return rendered(
        "audit.html", page=page_info(audit), document=audit, filters={"picture": picture, "confidence": told.confidence}
    )


def picture(packed: str) -> str:
    """The address of a PNG inside the page; of anything else none."""
    return f"data:image/png;base64,{packed}" if BASE64.fullmatch(packed) else ""
