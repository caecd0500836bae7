"""The answer to one question of `netdyno learn --ask`: a sentence and a table, on the terminal or as a page with its plots."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from netdyno.records.measured import Interval
from netdyno.records.study import Curve
from netdyno.reports import text
from netdyno.reports._figures import INK, RUNNING, SOFT, _svg
from netdyno.reports._study_figures import curve_svg
from netdyno.reports._units import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cell = Interval | float | str | None
# An interval of one run reaches over all scores.
BOUNDLESS = 1e5
NARROW = 72


def in_words(value: Cell) -> str:
    """A cell as it is read.

    >>> in_words(Interval(middle=0.5, low=0.4, high=0.6, level=0.95)), in_words(3.0), in_words(None)
    ('0.500 (0.400 to 0.600)', '3', '')
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Interval):
        if value.high - value.low > BOUNDLESS:
            return number(value.middle)
        return f"{number(value.middle)} ({number(value.low)} to {number(value.high)})"
    return f"{value:.4g}"


def render(
    says: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, width: int = 100, colour: bool = False
) -> str:
    """The sentence first, the table under it."""
    return text._printed(_parts(says, columns, rows, width), width=width, colour=colour)


def _parts(says: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> Iterable[text.Part]:
    yield text._said(says, "bold")
    yield text._said("")
    told = [[in_words(cell) for cell in row] for row in rows]
    if width < NARROW:
        for row in told:
            yield text._said(row[0])
            yield text._indented(
                text._pairs((name, cell) for name, cell in zip(columns[1:], row[1:], strict=True) if cell)
            )
        return
    table = text._table(*((name, {}) for name in columns))
    for row in told:
        table.add_row(*map(text._said, row))
    yield table


def page(
    title: str,
    says: str,
    *,
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[Cell]] = (),
    curves: Sequence[Curve] = (),
    dots: Sequence[tuple[str, Interval]] = (),
) -> str:
    """The same as one file that opens from disk, with its plots."""
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    shelf = Environment(loader=PackageLoader("netdyno.reports", "_templates"), autoescape=True)
    figures = [curve_svg(curve, name=f"curve-{at}") for at, curve in enumerate(curves)]
    if dots:
        figures.append(dots_svg(dots, name="choices"))
    return shelf.get_template("curve.html").render(
        title=title, says=says, columns=columns, rows=[[in_words(cell) for cell in row] for row in rows],
        style=Markup(shelf.get_template("report.css").render()),  # noqa: S704 - our own file
        figures=[Markup(figure) for figure in figures],  # noqa: S704 - matplotlib escapes what it writes
    )  # fmt: skip


def dots_svg(dots: Sequence[tuple[str, Interval]], *, name: str) -> str:
    """The score of each choice with its interval, the highest on top."""

    def draw(axes: "Axes") -> None:
        for at, (_, score) in enumerate(reversed(dots)):
            low, high = (score.low, score.high) if score.high - score.low < BOUNDLESS else (score.middle, score.middle)
            axes.plot((low, high), (at, at), color=SOFT, linewidth=1.2)
            axes.plot(score.middle, at, "o", color=RUNNING, markersize=5)
        axes.set_yticks(range(len(dots)), [label for label, _ in reversed(dots)], color=INK)
        axes.set_xlabel("score on fresh seeds")

    return _svg(draw, width=5.0, height=0.9 + 0.27 * len(dots), name=name)
