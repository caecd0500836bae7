"""The KL divergence is given probabilities where it takes their logarithms.

Looks for:  inputs of kl_div that are not negative and sum to 1 per row, or a divergence below 0.
Matters:    a divergence can't be negative; this one is, and pulls the model in a wrong direction.
Try:        `log_softmax` for what is judged.
Not this:   log_softmax before kl_div, as in distillation.
"""

from netdyno.records.calls import LossCalls
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, NOTHING, losses, training, used
from netdyno.rules._remedies import remedy

ALL = 0.99  # of the rows of every look


@rule(stage="loss")
def missing_log_in_divergence(losses: LossCalls) -> Finding | None:
    for use in training(losses, "kl_div"):
        low = use.input_low
        if (use.unit_rows or 0.0) < ALL and (low is None or low < 0 or (use.last or 0.0) >= 0):
            continue
        return Finding(
            says=f"kl_div is given probabilities, not their logarithms: it is {use.last or 0.0:.3g}, and a divergence can't be below 0",
            layer="optimisation",
            saves=NOTHING,
            because={"rows_that_sum_to_one": use.unit_rows or 0.0, "last": use.last or 0.0},
            fix="use `log_softmax` instead of `softmax` for the first argument of kl_div",
            where=use.where,
            confidence=CERTAIN,
            remedies=remedy("take-logarithm", call="kl_div", of="probabilities"),
        )
    return None


SICK = ((losses(used("kl_div", unit_rows=1.0, input_low=0.0, input_high=0.9, last=-1.4)),),)
# Log-probabilities.
WELL = ((losses(used("kl_div", log_rows=1.0, input_high=0.0, last=0.2)),), (losses(used()),))
