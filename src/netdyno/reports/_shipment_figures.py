"""Charts of a deployment: the front of latency and accuracy, and every call's latency. matplotlib is imported when one is drawn."""

from typing import TYPE_CHECKING

from netdyno.records.deployment import Candidate, Shipment
from netdyno.reports._figures import BAD, INK, RUNNING, SAVED, SOFT, WAITING, _svg
from netdyno.verdicts.shipping import drop_constraint, latency_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"fp32": RUNNING, "bf16": SAVED, "fp16": SAVED, "int8": WAITING}


def front_svg(shipment: Shipment, *, name: str) -> str:
    """Milliseconds of an answer against rows lost: the front joined, the winner ringed, the limit drawn."""
    shown = [one for one in shipment.candidates if one.accuracy is not None and latency_of(one, shipment.plan.rows)]
    if len(shown) < 2:
        return ""

    def draw(axes: "Axes") -> None:
        for precision, colour in COLOURS.items():
            mine = [one for one in shown if one.precision == precision]
            if mine:
                axes.scatter(
                    [_ms(one, shipment) for one in mine],
                    [_lost(one) for one in mine],
                    s=24,
                    color=colour,
                    label=precision,
                )
        joined = sorted((_ms(one, shipment), _lost(one)) for one in shown if one.on_front)
        axes.plot([x for x, _ in joined], [y for _, y in joined], color=SOFT, linewidth=1.0)
        if shipment.winner is not None and shipment.candidates[shipment.winner] in shown:
            best = shipment.candidates[shipment.winner]
            axes.scatter(
                [_ms(best, shipment)],
                [_lost(best)],
                s=90,
                facecolors="none",
                edgecolors=INK,
                linewidths=1.2,
                label="shipped",
            )
        axes.axhline(100 * drop_constraint(shipment.plan).limit, color=BAD, linewidth=0.9, linestyle=(0, (4, 3)))
        _plain_log(axes)
        axes.set_xlabel("ms of an answer (P50)")
        axes.set_ylabel("accuracy lost, points")
        axes.legend(frameon=False)

    return _svg(draw, width=6.2, height=2.9, name=name)


def ladder_svg(shipment: Shipment, *, name: str) -> str:
    """One bar for each rung of the latency ladder, its factor beside it."""
    steps = shipment.ladder
    if len(steps) < 2:
        return ""

    def draw(axes: "Axes") -> None:
        places = range(len(steps))[::-1]
        axes.barh(places, [1e3 * step.seconds.middle for step in steps], color=RUNNING, height=0.6)
        for place, step in zip(places, steps, strict=True):
            factor = f"  {step.ratio.middle:.1f}x" if step.ratio is not None else ""
            axes.annotate(
                f"{1e3 * step.seconds.middle:.3g} ms{factor}",
                (1e3 * step.seconds.middle, place),
                va="center",
                xytext=(4, 0),
                textcoords="offset points",
            )
        axes.set_yticks(list(places), [step.name for step in steps])
        axes.set_xlabel("ms of an answer (P50)")
        axes.margins(x=0.25)

    return _svg(draw, width=6.2, height=0.9 + 0.34 * len(steps), name=name)


def calls_svg(shipment: Shipment, *, name: str) -> str:
    """How the latency of single calls is spread: the winner's and the module's own, as the share of calls that took longer."""
    if shipment.winner is None:
        return ""
    sides = (("eager", shipment.control, SOFT), ("shipped", shipment.candidates[shipment.winner], SAVED))

    def draw(axes: "Axes") -> None:
        for label, candidate, colour in sides:
            single = latency_of(candidate, shipment.plan.rows) if candidate is not None else None
            if single is None or not single.samples:
                continue
            ordered = sorted(1e3 * seconds for seconds in single.samples)
            longer = [1 - at / len(ordered) for at in range(len(ordered))]
            axes.plot(ordered, longer, color=colour, linewidth=1.4, label=label, drawstyle="steps-post")
        for share in (0.5, 0.1, 0.01):
            axes.axhline(share, color=SOFT, linewidth=0.5, alpha=0.5)
        _plain_log(axes)
        axes.set_yscale("log")
        axes.set_xlabel("ms")
        axes.set_ylabel("share of calls that took longer")
        axes.legend(frameon=False)

    return _svg(draw, width=6.2, height=2.6, name=name)


def _plain_log(axes: "Axes") -> None:
    """A log axis of milliseconds with numbers as people write them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _ms(candidate: Candidate, shipment: Shipment) -> float:
    single = latency_of(candidate, shipment.plan.rows)
    return 1e3 * single.percentiles[0].seconds if single is not None else 0.0


def _lost(candidate: Candidate) -> float:
    return 100 * candidate.accuracy.drop.middle if candidate.accuracy is not None else 0.0
