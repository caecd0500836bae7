"""The instrument put on the dyno: known answers, two equal sides, and its own cost."""

import math
import statistics
from contextlib import ExitStack, closing

from netdyno.measure.environment import describe
from netdyno.measure.known_answers import known_answers
from netdyno.measure.selfcost import stopwatch_cost
from netdyno.progress import Event, Listener, silent
from netdyno.records.selftest import SelfTest
from netdyno.stats.paired import gain
from netdyno.stats.sequential import smallest_effect
from netdyno.stats.spread import robust_noise
from netdyno.trials.lab import Lab
from netdyno.trials.race import race

PAIRS = 60


def selftest(lab: Lab, *, error: float, listener: Listener = silent) -> SelfTest:
    """Known answers, an A/A trial of `lab`'s workload, and what the stopwatch costs. About half a minute.

    `error` is what one trial may spend: with it the smallest effect is that of a trial in a campaign.
    """
    answers = known_answers(seed=lab.plan.seed, listener=listener)
    listener(Event("comparing two equal sides", 0, 1))
    with ExitStack() as stack:
        arms = [stack.enter_context(closing(lab.open((), "in-process"))) for _ in range(2)]
        steps, _ = lab.warm(arms, "in-process")
        rounds = race(arms, rounds=PAIRS, steps=steps, chance=lab.chance, listener=listener, doing="two equal sides")
    control = [done.seconds(0) for done in rounds]
    treatment = [done.seconds(1) for done in rounds]
    noise = robust_noise(control, treatment)
    # One interval in a thousand misses: the question is whether the instrument is broken, not whether p < 0.05.
    same = gain(control, treatment, level=0.999)
    return SelfTest(
        environment=describe(lab.workload.device, seed=lab.plan.seed),
        answers=answers,
        noise=noise,
        same=same,
        pairs=lab.plan.max_pairs,
        smallest_effect=-math.expm1(-smallest_effect(noise, lab.plan.max_pairs, error)),
        own_cost_s=stopwatch_cost(lab.workload),
        step_s=statistics.median(control),
        waiting_share=statistics.fmean(turn.waiting_share for done in rounds for turn in done.turns),
    )
