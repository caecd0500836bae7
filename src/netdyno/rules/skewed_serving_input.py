"""The same records reach the model in two forms, and it was trained for one of them.

Looks for:  records that a model meets on two lines, known again by their shape, with numbers of another scale or their
            columns or channels in another order; and answers that change with it.
Matters:    a served model that gets raw pixels instead of scaled ones answers, and wrongly.
Try:        one function that prepares inputs, for training and for serving.
Not this:   augmentation at test time, which changes numbers by little and answers seldom; other data on the second line.
"""

from typing import Any

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.shipping import ShippingUse, Skew
from netdyno.rules._base import rule

# Brightness and contrast are augmented by factors of two at most; units are wrong by 16, 100 or 255.
SCALED = 4.0
# An offset of more than a deviation is no augmentation either.
MOVED = 1.0
# So many records tell that it is no chance, and so many answers must change for it to matter.
RECORDS, CHANGED = 8, 0.05


@rule(stage="use")
def skewed_serving_input(use: ShippingUse) -> Finding | None:
    worst = max((skew for skew in use.skews if _matters(skew)), key=lambda skew: skew.flips or 0.0, default=None)
    if worst is None:
        return None
    return Finding(
        says=f"{worst.rows} records reach `{worst.model}` in two forms: here {_form(worst)}, and {worst.flips or 0:.0%} of its answers change{_place(worst)}",
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={
            "records": float(worst.rows),
            "scale": worst.scale,
            "offset": worst.offset,
            "answers_changed": float(worst.flips or 0.0),
        },
        fix="prepare inputs by one function for training and serving (the same division, mean and order of channels)",
        where=worst.where,
        confidence=0.9,
    )


def _matters(skew: Skew) -> bool:
    scaled = max(skew.scale, 1 / skew.scale if skew.scale > 0 else 0.0) >= SCALED
    return skew.rows >= RECORDS and (scaled or skew.permuted or skew.offset >= MOVED) and (skew.flips or 0.0) >= CHANGED


def _form(skew: Skew) -> str:
    if skew.permuted:
        return "their columns come in another order"
    scale = skew.scale if skew.scale >= 1 else 1 / skew.scale
    if scale >= SCALED:
        return f"their numbers are {scale:.3g} times as {'large' if skew.scale >= 1 else 'small'}"
    return f"their numbers are moved by {skew.offset:.2g} deviations"


def _place(skew: Skew) -> str:
    return f" (the other form comes in line {skew.reference.line})" if skew.reference else ""


def _skew(**fields: Any) -> ShippingUse:
    known: dict[str, Any] = {
        "model": "Net", "rows": 120, "scale": 255.0, "flips": 0.3, "reference": Place(file="s.py", line=44), "where": Place(file="s.py", line=39),
    }  # fmt: skip
    return ShippingUse(skews=(Skew(**(known | fields)),))


# Raw pixels; another order of columns.
SICK = ((_skew(),), (_skew(scale=1.0, permuted=True),))
# The same form; a bit brighter; another scale that the model does not mind; two records.
WELL = ((_skew(scale=1.0),), (_skew(scale=1.5),), (_skew(flips=0.0),), (_skew(rows=2),))
