"""Evaluation takes more than it should of a training run.

Looks for:  evaluation that takes longer than the training between two of them, or two passes and more after every
            single update, in a tenth of the time or more.
Matters:    nothing is learnt while it runs; what it shows seldom changes within one update.
Try:        evaluate every n-th time or on a fixed part, read all scores from one pass, use larger batches there.
Not this:   passes of a teacher or a target network, or acting in an environment: they are part of training. Slow samples,
            which both sides wait for (see `input-bound`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import EvaluationUse, ScriptTrace, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import first_place, rule

ROUNDS = 3  # one round at the start and one at the end are what any short look at a script may catch
EVERY = 0.9  # rounds per update: all but the first and the last
PASSES = 2  # a single pass after each update is what plots of full-batch training are made of
MOSTLY = 0.9  # up to a tenth of the passes may belong to a metric or a transform that is a module
WORTH_A_WORD = 0.10  # below a tenth of the time, noise and cure cost about the same


@rule(suggests=("inference-mode",))
def costly_evaluation(
    use: EvaluationUse, trace: ScriptTrace | None = None, timeline: StepTimeline | None = None
) -> Finding | None:
    share = use.seconds / use.span_s if use.span_s else 0.0
    training_s = _training(use, timeline)
    outweighs = use.seconds > training_s
    if use.rounds < ROUNDS or share < WORTH_A_WORD or not _own(use) or not (outweighs or _constant(use)):
        return None
    updates, passes = use.updates / use.rounds, use.own_forwards / use.rounds
    return Finding(
        says=f"evaluation takes {share:.0%} of the time: {passes:.3g} passes after every {_updates(updates)}, "
        f"against {training_s / use.span_s:.0%} for training",
        layer="compute",
        # Left out altogether it costs nothing; how much of it is needed only its reader can say.
        saves=Saving(low=0.0, high=min(1.0, share)),
        because={
            "evaluation_s": use.seconds,
            "training_s": training_s,
            "rounds": float(use.rounds),
            "passes_per_round": passes,
            "updates_per_round": updates,
        },
        fix="evaluate every tenth time, and take all scores from one pass over the same batch"
        if _constant(use)
        else "evaluate less often, or on a fixed part of the data until the end",
        where=first_place(trace, "rounds") or use.where or first_place(trace, "evaluations"),
    )


def _own(use: EvaluationUse) -> bool:
    """Seconds are known of all passes together: they are evaluation's where nearly all passes are."""
    return use.own_forwards >= MOSTLY * use.forwards


def _training(use: EvaluationUse, timeline: StepTimeline | None) -> float:
    """Evaluation's seconds are with its samples, so training's must be, too."""
    return use.training_s + (timeline.share("data", "collate") * use.span_s if timeline is not None else 0.0)


def _constant(use: EvaluationUse) -> bool:
    return use.rounds >= EVERY * use.updates and use.own_forwards >= PASSES * use.rounds


def _updates(count: float) -> str:
    # Rounds and updates are counted in a window that may begin and end between them.
    return "update" if round(count) <= 1 else f"{count:.0f} updates"


def _use(
    *, rounds: int, forwards: int, seconds: float, training: float = 5.0, updates: int = 40, own: float = 1.0
) -> EvaluationUse:
    return EvaluationUse(
        updates=updates,
        rounds=rounds,
        forwards=forwards,
        own_forwards=round(own * forwards),
        seconds=seconds,
        training_s=training,
        span_s=training + seconds,
    )


# A full-batch graph network with two evaluations after each update; a validation set that outweighs the epoch.
SICK = (
    (_use(rounds=40, forwards=80, seconds=4.0),),
    (_use(rounds=4, forwards=400, seconds=9.0),),
)
_WAITS = StepTimeline(steps=100, step=Split(blocked=0.1), phases={"data": Split(blocked=0.07)})
# An ordinary validation; one long evaluation before training began; two tiny passes after each update; none at all;
# one pass after each update, for a curve; a target network and a policy that acts, in reinforcement learning; samples that
# both sides wait for.
WELL = (
    (_use(rounds=4, forwards=40, seconds=0.6),),
    (_use(rounds=1, forwards=200, seconds=20.0),),
    (_use(rounds=40, forwards=80, seconds=0.1),),
    (_use(rounds=0, forwards=0, seconds=0.0),),
    (_use(rounds=40, forwards=40, seconds=1.5),),
    (_use(rounds=40, forwards=160, seconds=9.0, own=0.5),),
    (_use(rounds=0, forwards=160, seconds=9.0, own=0.0),),
    (_use(rounds=12, forwards=36, seconds=1.3, training=0.8), None, _WAITS),
)
