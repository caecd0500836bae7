"""The negative log-likelihood is given what are no log-probabilities.

Looks for:  inputs of nll_loss above 0, or rows whose exponentials don't sum to 1.
Matters:    the loss only picks a number and negates it: it falls without end as outputs grow, and no class competes.
Try:        log_softmax before nll_loss, or cross_entropy on the raw outputs.
Not this:   log_softmax followed by nll_loss; a likelihood of another kind, which may be negative.
"""

from netdyno.records.calls import CallTraces, LossCalls
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, NOTHING, losses, made_where, training, used
from netdyno.rules._remedies import remedy

ABOVE = 1e-3  # no log-probability is above 0, rounding aside


@rule(stage="loss")
def missing_log(losses: LossCalls, traces: CallTraces | None = None) -> Finding | None:
    for use in training(losses, "nll_loss"):
        high = use.input_high
        if use.log_rows is None or use.log_rows > 0.5 or high is None or high <= ABOVE:
            continue
        probabilities = (use.unit_rows or 0.0) > 0.5
        what = "probabilities" if probabilities else "raw outputs"
        return Finding(
            says=f"nll_loss is given {what}, up to {high:.3g}, where it takes log-probabilities: the loss went from {use.first or 0.0:.3g} to {use.last or 0.0:.3g}",
            layer="optimisation",
            saves=NOTHING,
            because={"highest_input": high, "rows_of_log_probabilities": use.log_rows},
            fix="apply `log_softmax` first, or use `cross_entropy` on the raw outputs",
            where=made_where(traces, use.name) or use.where,
            confidence=CERTAIN,
            remedies=remedy("take-logarithm", call="nll_loss", of="probabilities" if probabilities else "outputs"),
        )
    return None


SICK = (
    (losses(used("nll_loss", first=-0.1, last=-80.0)),),
    (losses(used("nll_loss", unit_rows=1.0, input_low=0.0, input_high=0.99)),),
)
# Log-probabilities; cross_entropy on logits; a negative loss of another kind.
WELL = (
    (losses(used("nll_loss", log_rows=1.0, input_high=0.0)),),
    (losses(used()),),
    (losses(used("gaussian_nll_loss", classes=None, last=-2.0)),),
)
