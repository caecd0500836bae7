"""A watched run as a card in a notebook: what it is, how far it is, its loss, its last alerts. It needs nothing from outside."""

import math
from html import escape
from typing import TYPE_CHECKING, Any

from netdyno.store.journal import Run, decimated

if TYPE_CHECKING:
    from netdyno.monitor.run import Watch

POINTS, WIDE, HIGH = 240, 320, 48
LAST = 5
# The notebook's own colours, whatever its theme: text is what it is there, and everything else a part of it.
STYLE = (
    "font:13px/1.5 system-ui,sans-serif;color:inherit;border:1px solid color-mix(in srgb,currentColor 25%,transparent);"
    "border-radius:6px;padding:.6em .9em;max-width:40em;display:inline-block"
)
FAINT = "opacity:.75"
# Only the edge beside an alert is coloured, and a word says the same.
MARKS = {"trip": ("tripwire", "#d03b3b"), "warning": ("warning", "#b26a00"), "note": ("note", "#3f7fbf")}


def html(watch: "Watch") -> str:
    """The card. It shows what is on disk by now, and of a watch that has not begun its name alone."""
    run = Run(watch.journal.folder) if hasattr(watch, "journal") else None
    if run is not None and watch.running:
        watch.journal.flush()
    return card(
        name=watch.info.name,
        tags=watch.info.tags,
        state="not begun" if run is None else "running" if watch.running else run.state(),
        updates=watch.updates,
        losses=[] if run is None else _losses(run),
        alerts=[] if run is None else [event["alert"] for event in run.events()[0] if event["kind"] == "alert"],
    )


def card(
    *,
    name: str,
    tags: dict[str, str],
    state: str,
    updates: int,
    losses: list[tuple[float, float]],
    alerts: list[dict[str, Any]],
) -> str:
    """What is known, as HTML that carries its own style and no script."""
    tagged = " ".join(escape(f"{tag}={value}") for tag, value in tags.items())
    lines = [
        f"<strong>{escape(name)}</strong> <span style='{FAINT}'>{escape(state)}, {updates:,} updates {tagged}</span>",
        *([f"<div>{sparkline(losses)} loss {losses[-1][1]:.4g}</div>"] if losses else []),
        *(_alert(alert) for alert in alerts[-LAST:]),
    ]
    if len(alerts) > LAST:
        lines.append(f"<div style='{FAINT}'>and {len(alerts) - LAST} before</div>")
    return f"<div style='{STYLE}'>{''.join(lines)}</div>"


def sparkline(points: list[tuple[float, float]]) -> str:
    """A line through the points, in the colour of the text around it; it breaks where a value is not finite.

    >>> sparkline([(1, 2.0), (2, 1.0)]).count("<path")
    1
    """
    finite = [value for _, value in points if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    first, last = points[0][0], points[-1][0]
    path, pen = [], "M"
    for at, value in points:
        if not math.isfinite(value):
            pen = "M"
            continue
        x = 2 + (WIDE - 4) * (at - first) / ((last - first) or 1)
        y = 2 + (HIGH - 4) * (high - value) / ((high - low) or 1)
        path.append(f"{pen}{x:.1f},{y:.1f}")
        pen = "L"
    said = f"loss from {finite[0]:.4g} to {finite[-1]:.4g}, between {low:.4g} and {high:.4g}"
    return (
        f"<svg role='img' aria-label='{said}' width='{WIDE}' height='{HIGH}' viewBox='0 0 {WIDE} {HIGH}' "
        f"style='vertical-align:middle'><title>{said}</title>"
        f"<path d='{''.join(path)}' fill='none' stroke='currentColor' stroke-width='1.5'/></svg>"
    )


def _losses(run: Run) -> list[tuple[float, float]]:
    series = decimated(run.series("loss"), points=POINTS)
    return list(zip(series.updates.tolist(), series.values.tolist(), strict=True))


def _alert(alert: dict[str, Any]) -> str:
    word, colour = MARKS.get(alert["severity"], MARKS["note"])
    fix = f"<div style='{FAINT}'>try: {escape(alert['fix'])}</div>" if alert.get("fix") else ""
    return (
        f"<div style='border-left:3px solid {colour};padding-left:.6em;margin-top:.4em'>{word}, update {alert['update']}: "
        f"{escape(alert['says'])}{fix}</div>"
    )
