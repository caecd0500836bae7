"""A search as one HTML file that opens from disk: the ladder, each knob's own experiment with its curve, and the document."""

from typing import NamedTuple

from netdyno.records.study import Study
from netdyno.reports import _study as told
from netdyno.reports._page import rendered
from netdyno.reports._study_figures import curve_svg, front_svg


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
    return rendered("study.html", page=page_info(study), document=study)
