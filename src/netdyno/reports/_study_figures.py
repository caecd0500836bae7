"""Charts of a search: the curve beside a sweep, and the Pareto front. matplotlib is imported when one is drawn."""

from typing import TYPE_CHECKING

from netdyno.records.study import Candidate, Curve
from netdyno.reports._figures import BAD, INK, RUNNING, SAVED, SOFT, WAITING, _svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (RUNNING, SAVED, WAITING, BAD)
# More lines than this cannot be told apart by colour; the document has them all.
MOST_LINES = len(COLOURS)


def curve_svg(curve: Curve, *, name: str) -> str:
    """The lines of a sweep over its setting, with its marked places."""

    def draw(axes: "Axes") -> None:
        for colour, (label, values) in zip(COLOURS, curve.lines.items(), strict=False):
            dots = "o" if len(values) <= 20 else None
            axes.plot(curve.x, values, color=colour, linewidth=1.4, marker=dots, markersize=4, label=label)
        for label, place in curve.marks.items():
            axes.axvline(place, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
            axes.annotate(
                label, (place, 1), xycoords=("data", "axes fraction"), xytext=(4, -9), textcoords="offset points"
            )
        if curve.log_x:
            axes.set_xscale("log")
        axes.set_xlabel(curve.x_name)
        axes.set_ylabel(curve.y_name)
        if len(curve.lines) > 1:
            axes.legend(frameon=False)

    return _svg(draw, width=5.0, height=2.3, name=name)


def front_svg(candidates: tuple[Candidate, ...], *, name: str) -> str:
    """Score against seconds of a run: what is feasible, what is not, and the front of what nothing beats in all respects."""

    def draw(axes: "Axes") -> None:
        for kind, marker, colour, label in KINDS:
            mine = [one for one in candidates if _kind(one) == kind]
            if mine:
                places = [one.seconds for one in mine], [one.score for one in mine]
                axes.scatter(*places, s=22, marker=marker, color=colour, linewidths=0.9, label=label, zorder=3)
        front = sorted((one.seconds, one.score) for one in candidates if one.on_front)
        axes.plot([x for x, _ in front], [y for _, y in front], color=SAVED, linewidth=1.0, alpha=0.6)
        axes.set_xlabel("seconds of a training run")
        axes.set_ylabel("score")
        axes.legend(frameon=False)

    return _svg(draw, width=6.2, height=2.9, name=name)


KINDS = (
    ("front", "o", SAVED, "on the front"),
    ("feasible", "o", SOFT, "feasible"),
    ("out", "x", BAD, "not feasible, or over a limit"),
)


def _kind(one: Candidate) -> str:
    return "front" if one.on_front else "feasible" if one.feasible else "out"
