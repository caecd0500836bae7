"""Parameters were replaced after the model was wrapped for several processes: their gradients are no longer averaged.

Looks for:  parameters of a wrapped model that its wrapper doesn't know.
Matters:    each process trains a model of its own, and only one of them is saved.
Try:        change the model first, then wrap it.
Not this:   frozen parameters, which need no average.
"""

from netdyno.records.base import Place
from netdyno.records.calls import ModelProbe
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, NOTHING, probe


@rule(stage="structure")
def diverged_replicas(probe: ModelProbe) -> Finding | None:
    if not probe.replaced:
        return None
    return Finding(
        says=f"{probe.replaced} of {probe.parameters} parameters of `{probe.model}` were replaced after it was wrapped: each process trains its own",
        layer="optimisation",
        saves=NOTHING,
        because={"replaced": float(probe.replaced), "parameters": float(probe.parameters)},
        fix="change the model before it is wrapped in DistributedDataParallel",
        where=Place(module=probe.model),
        confidence=CERTAIN,
    )


SICK = ((probe(replaced=2, parameters=4),),)
# All known.
WELL = ((probe(parameters=4),),)
