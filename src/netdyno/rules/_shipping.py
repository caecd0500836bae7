"""What the rules over exported and served models have in common."""

from typing import Any

from netdyno.records.base import Place
from netdyno.records.shipping import Derived, ShippingUse, Spread

# Rounding in another order moves an answer by a millionth of what answers differ by; a hundredth is another answer.
ANOTHER = 0.01
# A rounded model may miss some of the finer differences; who misses this much of them is another model.
RUINED = 0.3
# The share of rows whose class may change by rounding alone.
AGREES = 0.97


def differs(made: Derived) -> bool:
    """Whether it answers real inputs otherwise than the model, beyond rounding."""
    return made.error is not None and (made.error > ANOTHER or made.bad > 0)


def ruined(made: Derived) -> bool:
    """Whether so much is lost that it shows in what the answers are used for."""
    if made.bad > 0:
        return True
    if made.error is None:
        return False
    return made.error > RUINED or (made.agreement is not None and made.agreement < AGREES and made.error > ANOTHER * 10)


def effect(made: Derived) -> str:
    """How far its answers are from the model's own, in words."""
    told = [f"on {made.rows} real rows its answers are off by {made.error or 0:.2f} of what they differ by"]
    if made.agreement is not None and made.agreement < 1:
        told.append(f"{1 - made.agreement:.0%} of the classes change")
    if made.bad:
        told.append(f"{made.bad:.0%} of them are no numbers")
    return ", ".join(told)


def numbers(made: Derived) -> dict[str, float]:
    """The measured values behind such a sentence."""
    told = {
        "rows": float(made.rows),
        "error": made.error,
        "worst": made.worst,
        "agreement": made.agreement,
        "bad": made.bad,
    }
    return {name: float(value) for name, value in told.items() if value is not None}


def shipped(**fields: Any) -> ShippingUse:
    """A specimen: one thing made of a model."""
    known: dict[str, Any] = {
        "how": "trace", "model": "Net", "rows": 200, "inputs": 4, "error": 2e-7, "worst": 1e-6, "agreement": 1.0,
        "example": Spread(low=0.0, high=1.0, mean=0.5, std=0.3), "real": Spread(low=0.0, high=16.0, mean=5.0, std=6.0),
        "distinct": 200, "model_distinct": 200, "where": Place(file="deploy.py", line=40),
    }  # fmt: skip
    return ShippingUse(derived=(Derived(**(known | fields)),))
