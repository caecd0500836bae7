"""Charts as inline SVG that takes its colours and its font from the page around it.

matplotlib is imported inside: a terminal report must not wait for it.
"""

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from netdyno.records.measured import Interval
from netdyno.reports._pictures import PairsInfo, RooflineInfo
from netdyno.reports._units import fixed, rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# matplotlib wants real colours; each stands for one CSS variable of the page and is replaced afterwards.
INK, SOFT, LINE, SAVED, RUNNING, WAITING, BAD = (f"#0{digit}0{digit}0{digit}" for digit in "1234567")
VARIABLES = {
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    LINE: "var(--line)",
    SAVED: "var(--saved)",
    RUNNING: "var(--running)",
    WAITING: "var(--waiting)",
    BAD: "var(--bad)",
}
DECIDED = {"keep": SAVED, "drop": BAD, "undecided": WAITING, "failed": BAD, "open": SOFT}

# In a picture this small more than three names run into each other; the table beside it names them all.
NAMED_DOTS = 3


def pairs_svg(info: PairsInfo, *, gain: Interval | None, least_gain: float, decision: str, name: str) -> str:
    """Each pair's saved share as a dot in the order they were taken, the interval, and the least gain."""

    def draw(axes: "Axes") -> None:
        colour = DECIDED.get(decision, SOFT)
        count = len(info.saved)
        for at in info.respawns:
            axes.axvline(at + 0.5, color=LINE, linewidth=0.8)
        axes.axhline(0, color=SOFT, linewidth=0.8)
        axes.axhline(100 * least_gain, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
        if gain is not None:
            axes.axhspan(100 * gain.low, 100 * gain.high, color=colour, alpha=0.22, linewidth=0)
            axes.axhline(100 * gain.middle, color=colour, linewidth=1.4)
        inside = [(at + 1, 100 * value) for at, value in enumerate(info.saved) if info.low <= value <= info.high]
        axes.scatter(
            [at for at, _ in inside], [value for _, value in inside], s=9, color=colour, linewidths=0, zorder=3
        )
        for at, value in enumerate(info.saved):
            if not info.low <= value <= info.high:
                edge, mark = (info.high, "^") if value > info.high else (info.low, "v")
                axes.plot(at + 1, 100 * edge, marker=mark, markersize=5, color=colour, clip_on=False, zorder=3)
        axes.set_xlim(0.2, count + 0.8)
        axes.set_ylim(100 * info.low, 100 * info.high)
        axes.set_xlabel("pair")
        axes.yaxis.set_major_formatter(lambda value, _: f"{fixed(value, 0 if abs(value) >= 1 or not value else 1)} %")
        axes.locator_params(axis="y", nbins=5)
        axes.locator_params(axis="x", integer=True, nbins=6)

    return _svg(draw, width=4.7, height=2.1, name=name)


def roofline_svg(info: RooflineInfo, *, name: str) -> str:
    """Layers by FLOP per byte and FLOP/s, larger dots take longer, under what the machine can do."""

    def draw(axes: "Axes") -> None:
        low, high = _span([dot.intensity for dot in info.dots] + _ridges(info))
        axes.set_xscale("log")
        axes.set_yscale("log")
        _roofs(axes, info, low, high)
        longest = max(dot.seconds for dot in info.dots)
        for place, dot in enumerate(info.dots):
            area = 12 + 150 * dot.seconds / longest
            axes.scatter(dot.intensity, dot.rate, s=area, color=RUNNING, alpha=0.75, linewidths=0, zorder=3)
            if place < NAMED_DOTS:
                axes.annotate(
                    dot.module if len(dot.module) <= 18 else f"…{dot.module[-17:]}",
                    (dot.intensity, dot.rate),
                    xytext=(0, -(area**0.5) / 2 - 3),
                    textcoords="offset points",
                    ha="center",
                    va="top",
                    color=INK,
                    parse_math=False,
                )
        bottom, top = _span([dot.rate for dot in info.dots] + list(info.matmul.values()))
        axes.set_xlim(low, high)
        axes.set_ylim(bottom, top)
        axes.set_xlabel("FLOP per byte")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_formatter(lambda value, _: rate(value, "FLOP/s"))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(lambda *_: "")
        axes.grid(visible=True, which="major", color=LINE, linewidth=0.6)

    return _svg(draw, width=11.5, height=4.6, name=name)


def _ridges(info: RooflineInfo) -> list[float]:
    return [flops / info.bandwidth for flops in info.matmul.values()] if info.bandwidth else []


def _span(values: list[float]) -> tuple[float, float]:
    """A logarithmic axis with a little air on both sides."""
    return min(values) / 2.2, max(values) * 2.2


def _roofs(axes: "Axes", info: RooflineInfo, low: float, high: float) -> None:
    slope = info.bandwidth
    for dtype, flops in info.matmul.items():
        ours = dtype == info.dtype
        left = flops / slope if slope else low
        axes.plot([left, high], [flops, flops], color=INK if ours else SOFT, linewidth=1.6 if ours else 1.0)
        axes.annotate(
            f"{dtype} {rate(flops, 'FLOP/s')}", (high, flops), xytext=(-4, 3), textcoords="offset points",
            ha="right", color=INK if ours else SOFT, parse_math=False,
        )  # fmt: skip
    if slope:
        end = max(info.matmul.values(), default=slope * high) / slope
        axes.plot([low, end], [low * slope, end * slope], color=INK, linewidth=1.6)
        middle = (low * end) ** 0.5
        axes.annotate(
            f"memory {rate(slope, 'B/s')}", (middle, middle * slope), xytext=(10, -4), textcoords="offset points",
            va="top", color=INK,
        )  # fmt: skip


def _svg(draw: Callable[[Any], None], *, width: float, height: float, name: str) -> str:
    """What `draw` puts on a pair of axes, as an SVG element that belongs to the page."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.fonttype": "none",  # text stays text: it is searchable and takes the page's font
        "svg.hashsalt": name,
        "font.size": 9.5,
        "axes.edgecolor": SOFT,
        "axes.labelcolor": SOFT,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "text.color": INK,
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=(width, height), layout="constrained")
        canvas = FigureCanvasSVG(figure)
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        draw(axes)
        page = io.BytesIO()
        canvas.print_svg(page, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return _at_home(page.getvalue().decode(), name)


def _at_home(svg: str, name: str) -> str:
    """Without prolog and foreign addresses, with ids of its own and the page's colours."""
    svg = svg[svg.index("<svg") :]
    # Its style sheet would reach beyond the picture: inside a page it holds for everything.
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"', "", svg)
    svg = re.sub(r'^<svg([^>]*?)\swidth="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r'^<svg([^>]*?)\sheight="[^"]*"', r"<svg\1", svg, count=1)
    svg = svg.replace(' id="', f' id="{name}-').replace("url(#", f"url(#{name}-")
    svg = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', svg)
    svg = re.sub(r"font:[^;\"]*", _page_font, svg)
    svg = re.sub(r"font-family:[^;\"]*;?\s*", "", svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, variable)
    return svg.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1).strip()


def _page_font(found: "re.Match[str]") -> str:
    pixels = re.search(r"([\d.]+)px", found.group())
    return f"font-size: {pixels.group(1)}px" if pixels else ""
