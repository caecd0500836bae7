"""A deployment as one HTML file that opens from disk: what is shipped, the ladder, the front, the gate, and the document."""

from typing import NamedTuple

from netdyno.records.deployment import Shipment
from netdyno.reports import _shipment as told
from netdyno.reports._page import rendered
from netdyno.reports._shipment_figures import calls_svg, front_svg, ladder_svg


class PageInfo(NamedTuple):
    """All that the page shows. The template formats and decides nothing."""

    shipment: Shipment
    info: told.ShipmentInfo
    ladder: str
    front: str
    calls: str


def page_info(shipment: Shipment) -> PageInfo:
    """What is to be shown."""
    return PageInfo(
        shipment,
        told.shipment_info(shipment),
        ladder_svg(shipment, name="ladder"),
        front_svg(shipment, name="front"),
        calls_svg(shipment, name="calls"),
    )


def render(shipment: Shipment) -> str:
    """The page, complete in itself; it asks no network for anything."""
    return rendered("shipment.html", page=page_info(shipment), document=shipment)
