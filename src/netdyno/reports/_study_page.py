"""A search as one HTML file that opens from disk: the ladder, each knob's own experiment with its curve, and the document."""

import base64
import hashlib
import json
from typing import NamedTuple

import msgspec

from netdyno.records.study import Study
from netdyno.reports import _study as told
from netdyno.reports._study_figures import curve_svg, front_svg
from netdyno.reports.html import _finalized, _source


class SweepCard(NamedTuple):
    """One knob's experiment with its drawn curves."""

    info: told.SweepInfo
    figures: tuple[str, ...]
    mark: str


class PageInfo(NamedTuple):
    """All that the page shows. The template formats and decides nothing."""

    study: Study
    info: told.StudyInfo
    kept: tuple[SweepCard, ...]
    others: tuple[SweepCard, ...]
    front: str


def page_info(study: Study) -> PageInfo:
    """What is to be shown."""
    info = told.study_info(study)
    front = front_svg(study.candidates, name="front") if len(study.candidates) > 1 else ""
    return PageInfo(study, info, _cards(info.kept, "kept"), _cards(info.others, "other"), front)


def _cards(sweeps: tuple[told.SweepInfo, ...], group: str) -> tuple[SweepCard, ...]:
    return tuple(
        SweepCard(
            each,
            tuple(curve_svg(curve, name=f"{group}-{at}-{number}") for number, curve in enumerate(each.curves)),
            told.MARKS[each.verdict],
        )
        for at, each in enumerate(sweeps)
    )


def render(study: Study) -> str:
    """The page, complete in itself; it asks no network for anything."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    shelf = Environment(
        loader=PackageLoader("netdyno.reports", "_templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=_finalized,
    )  # fmt: skip
    shelf.filters |= {"drawn": Markup}  # matplotlib escapes what it writes
    script = _source(shelf, "report.js")
    return shelf.get_template("study.html").render(
        page=page_info(study),
        style=Markup(shelf.get_template("report.css").render()),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=Markup(_embedded(study)),  # noqa: S704 - `_embedded` leaves no angle bracket
    )


def _embedded(study: Study) -> str:
    text = msgspec.json.encode(study).decode()
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    assert json.loads(text) == json.loads(msgspec.json.encode(study))
    return text
