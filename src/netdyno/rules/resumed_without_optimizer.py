"""Training goes on with saved weights, and with an optimizer that remembers nothing.

Looks for:  weights loaded as they were, an optimizer of the same kind and settings that begins at its first step, and losses that
            rise once it does.
Matters:    the first steps of an optimizer without its averages are as large as those of the beginning: what was learned is lost.
Try:        save and load `optimizer.state_dict()` beside the weights; the scheduler's and scaler's too.
Not this:   fine-tuning, which begins with another rate, other weights or other data on purpose; plain SGD, which has no state.
"""

from statistics import median
from typing import Any

from msgspec import structs

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.shipping import SaveUse, StateLoad
from netdyno.rules._base import rule

# A loss that is worse by a quarter than it was just before, and by more than it wavered there.
WORSE, WAVERS = 1.25, 2.0
# Losses it takes to say so.
ENOUGH = 6
# Three resumptions or more, after which the first losses are higher by a tenth than just before, and all of them together by
# four standard errors of medians: training that goes on well has them lower.
TIMES, HIGHER, ERRORS = 3, 1.1, 4.0
EARLY = 8  # losses after a resumption in which the steps are too long
MEDIAN, MAD = 1.2533, 1.4826  # a median's error against a mean's, and a normal deviation in middle deviations


@rule(stage="use")
def resumed_without_optimizer(use: SaveUse) -> Finding | None:
    all_resumed = [load for load in use.loads if _resumed(load)]
    if not all_resumed:
        return None
    resumed = max(all_resumed, key=lambda load: _jump(load) or 0.0)
    jump = _jump(resumed)
    harmed = (
        (jump is not None and jump >= WORSE and _beyond_noise(resumed))
        or _each_time(all_resumed)
        or _got_worse(all_resumed)
    )
    if not harmed and not resumed.with_optimizer and len(all_resumed) < TIMES:
        return None
    told = f"; the loss went from {median(resumed.before):.3g} to {median(resumed.after):.3g}" if harmed else ""
    return Finding(
        says=f"training went on from saved weights at update {resumed.at} with a new {resumed.fresh} at step 1{_kept(resumed)}{told}",
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because={"update": float(resumed.at), "optimizer_step": 1.0}
        | ({} if jump is None else {"loss_after_over_before": jump}),
        fix="save `optimizer.state_dict()` with the weights, and `optimizer.load_state_dict(...)` before going on",
        where=resumed.where,
        # Without a rise of the loss it may be a fresh start on purpose.
        confidence=(0.9 if resumed.with_optimizer else 0.75) if harmed else 0.5,
    )


def _resumed(load: StateLoad) -> bool:
    if load.fresh is None or load.optimizer_loads or not load.trained or load.missing_count:
        return False
    # In one process: the same settings as before, and the weights just left. From another's file: it holds what was not used.
    return load.same_settings and load.captured == load.at if load.before else load.with_optimizer


def _each_time(loads: list[StateLoad]) -> bool:
    rises = [(_ratio(one), _errors(one)) for one in loads if len(one.after) > EARLY and len(one.before) > EARLY]
    if len(rises) < TIMES or min(ratio for ratio, _ in rises) <= 0:
        return False
    return (
        median(ratio for ratio, _ in rises) >= HIGHER
        and sum(errors for _, errors in rises) / len(rises) ** 0.5 >= ERRORS
    )


def _got_worse(loads: list[StateLoad]) -> bool:
    """Whether what was lost each time adds up: after several resumptions the loss is above that before the first one."""
    known = [one for one in loads if len(one.after) > EARLY and len(one.before) > EARLY and median(one.before) > 0]
    if len(known) < TIMES:
        return False
    whole = structs.replace(known[0], after=known[-1].after)
    return median(whole.after) >= WORSE * median(whole.before) and _errors(whole, len(whole.after)) >= ERRORS


def _ratio(load: StateLoad) -> float:
    before = median(load.before)
    return median(load.after[1 : 1 + EARLY]) / before if before > 0 else 0.0


def _errors(load: StateLoad, count: int = EARLY) -> float:
    """The rise in standard errors of both medians, by how the losses wavered before."""
    middle = median(load.before)
    deviation = MAD * median(abs(one - middle) for one in load.before)
    error = MEDIAN * deviation * (1 / count + 1 / len(load.before)) ** 0.5
    return (median(load.after[1 : 1 + count]) - middle) / error if error else 0.0


def _kept(load: StateLoad) -> str:
    return ", although the checkpoint holds its state" if load.with_optimizer else ""


def _jump(load: StateLoad) -> float | None:
    if len(load.before) < ENOUGH or len(load.after) < ENOUGH or median(load.before) <= 0:
        return None
    return median(load.after) / median(load.before)


def _beyond_noise(load: StateLoad) -> bool:
    middle = median(load.before)
    wavers = median(abs(one - middle) for one in load.before)
    return median(load.after) - middle > WAVERS * wavers


def _load(**fields: Any) -> StateLoad:
    known: dict[str, Any] = {
        "model": "Net",
        "at": 0,
        "strict": False,
        "keys": 8,
        "evaluated": 6,
        "where": Place(file="serve.py", line=41),
    }
    return StateLoad(
        **(
            known
            | {
                "strict": True,
                "at": 200,
                "captured": 200,
                "trained": 200,
                "fresh": "Adam",
                "same_settings": True,
                "before": (0.5, 0.51, 0.49, 0.5, 0.52, 0.48),
            }
            | fields
        )
    )


def _use(*loads: StateLoad) -> SaveUse:
    return SaveUse(updates=400, loads=loads)


JUMPED = (0.5, 0.9, 1.1, 1.0, 0.9, 0.8)
# The state is in the file and the loss jumped; it was never saved; it is there, and nothing shows yet (a suspicion).
WAVES = tuple(0.25 + 0.01 * (place % 5) for place in range(24))
HIGHER_WAVES = tuple(0.5 + one for one in WAVES)
SICK = (
    (
        _use(
            *(
                _load(at=at, captured=at, before=before, after=after)
                for at, before, after in (
                    (60, WAVES, WAVES),
                    (80, WAVES, HIGHER_WAVES),
                    (100, HIGHER_WAVES, HIGHER_WAVES),
                )
            )
        ),
    ),
    (_use(_load(with_optimizer=True, after=JUMPED)),),
    (_use(_load(after=JUMPED)),),
    (_use(_load(with_optimizer=True, after=(0.5, 0.5, 0.5, 0.49, 0.5, 0.48))),),
)
# The weights of the beginning again; the state was loaded; another rate (fine-tuning); no jump and nothing in the file; only evaluated afterwards; an optimizer without state.
WELL = (
    (_use(*(_load(at=at, captured=at, before=WAVES, after=()) for at in (60, 80))),),
    (_use(_load(captured=0, after=JUMPED)),),
    (_use(_load(with_optimizer=True, optimizer_loads=1, after=JUMPED)),),
    (_use(_load(same_settings=False, after=JUMPED)),),
    (_use(_load(after=(0.5, 0.5, 0.49, 0.5, 0.52, 0.5))),),
    (_use(_load(trained=0)),),
    (_use(_load(fresh=None, after=JUMPED)),),
)
