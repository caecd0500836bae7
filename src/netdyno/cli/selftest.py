"""Whether the instrument can be believed here, today."""

from typing import Annotated

from netdyno.cli._declare import Argument
from netdyno.cli._endings import DONE, NO
from netdyno.cli._options import AsJson, Progress, ProgressForm, Seed, as_json
from netdyno.cli._output import put
from netdyno.cli._progress import listening, loading
from netdyno.progress import Listener
from netdyno.records.record import Plan
from netdyno.records.selftest import SelfTest


def selftest(
    *,
    reference: Annotated[
        str, Argument("The workload to compare with itself; a built-in one unless yours is named.")
    ] = "garage:digits",
    seed: Seed = 0,
    json: AsJson = False,
    progress: Progress = ProgressForm.AUTO,
) -> int:
    """Test the instrument itself.

    Injects delays of known size, compares two equal sides, weighs the stopwatch; exits with 1 when it cannot be
    believed here today.
    """
    with listening(progress) as listener:
        loading(listener)
        found = _tested(reference, seed, listener)
    put(as_json(found) if json else "\n".join(sentences(found)))
    return DONE if found.holds else NO


def _tested(reference: str, seed: int, listener: Listener) -> SelfTest:
    import random

    from netdyno import arms
    from netdyno.stats.sequential import campaign_error
    from netdyno.targets import workload as workloads
    from netdyno.trials import selftest as bench
    from netdyno.trials.lab import Lab

    plan = Plan(seed=seed)
    lab = Lab(
        reference=reference,
        workload=workloads.load(reference),
        plan=plan,
        listener=listener,
        chance=random.Random(seed),
    )
    try:
        return bench.selftest(lab, error=campaign_error(plan.error, trials=20), listener=listener)
    finally:
        arms.shut()


def sentences(found: SelfTest) -> list[str]:
    """The self-test in sentences, the verdict last."""
    lines = [
        f"{'right' if answer.right else 'WRONG'}  {answer.injected_s * 1e3:.1f} ms {answer.kind} in {answer.phase}: "
        f"found {answer.found_s * 1e3:.2f} ms {answer.found_kind} in {answer.found_phase} ({answer.error:.1%} off)"
        for answer in found.answers
    ]
    same = found.same
    lines += [
        f"two equal sides differ by {same.middle:+.2%} ({same.level:.1%}: {same.low:+.2%} to {same.high:+.2%})",
        f"noise of one pair: {found.noise:.1%}; a trial of {found.pairs} pairs can show {found.smallest_effect:.1%} of a step",
        f"the stopwatch costs {found.own_cost_s * 1e6:.0f} µs of a step of {found.step_s * 1e3:.1f} ms",
        f"waiting for a core: {found.waiting_share:.0%} of the time",
        "the instrument can be believed here, today"
        if found.holds
        else "the instrument can NOT be believed here today",
    ]
    return lines
