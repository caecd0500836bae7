"""Known answers, on a machine as it is and under load: every injected delay found, in its phase, as its kind, in size.

    python benchmarks/known_answers.py --load 20 --seconds 240 --write docs/results/known-answers.md

The load is processes that do nothing but compute, and that end by themselves.
"""

import argparse
import multiprocessing
import os
import time
from pathlib import Path
from statistics import median

from netdyno.measure.known_answers import known_answers
from netdyno.measure.stopwatch import thread_clock
from netdyno.records.selftest import KnownAnswer


def burn(seconds: float) -> None:
    """Compute until the time is up, or until whoever started it is gone."""
    end, parent = time.monotonic() + seconds, os.getppid()
    while time.monotonic() < end and os.getppid() == parent:
        sum(range(20_000))


def under_load(processes: int, seconds: float) -> tuple[tuple[KnownAnswer, ...], float]:
    """The answers while so many processes compute, and the share of wall time that the thread waited for a core."""
    context = multiprocessing.get_context("spawn")
    burning = [context.Process(target=burn, args=(seconds,), daemon=True) for _ in range(processes)]
    for process in burning:
        process.start()
    if burning:
        time.sleep(3)  # until all of them have started
    try:
        clock = thread_clock()
        before = clock()
        answers = known_answers()
        after = clock()
        alive = sum(process.is_alive() for process in burning)
        if alive < processes:
            raise SystemExit(f"only {alive} of {processes} load processes lasted: raise --seconds")
    finally:
        for process in burning:
            process.terminate()
            process.join()
    return answers, (after.waiting - before.waiting) / (after.wall - before.wall)


def table(answers: tuple[KnownAnswer, ...]) -> list[str]:
    head = ["| injected into | as | ms | found in | as | ms | off by | right |", "|---|---|---|---|---|---|---|---|"]
    return head + [
        f"| {answer.phase} | {answer.kind} | {answer.injected_s * 1e3:.2f} | {answer.found_phase} | "
        f"{answer.found_kind} | {answer.found_s * 1e3:.2f} | {answer.error:.1%} | {'yes' if answer.right else 'NO'} |"
        for answer in answers
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", type=int, default=10 * (os.cpu_count() or 1), help="processes that compute meanwhile")
    parser.add_argument("--seconds", type=float, default=240.0, help="after which the load ends by itself")
    parser.add_argument("--write", type=Path, help="a Markdown file for the result")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    lines = ["# Known answers", "", f"`python benchmarks/known_answers.py --load {options.load}` on {cores} cores.", ""]
    wrong = 0
    for processes in (0, options.load):
        began = time.monotonic()
        answers, waiting = under_load(processes, options.seconds)
        wrong += sum(not answer.right for answer in answers)
        lines += [
            f"## {processes} load processes",
            "",
            (
                f"Load average {os.getloadavg()[0]:.1f}; the stepping thread waited for a core {waiting:.0%} of the time; "
                f"median error {median(answer.error for answer in answers):.1%}, "
                f"largest {max(answer.error for answer in answers):.1%}; "
                f"{sum(answer.right for answer in answers)} of {len(answers)} right; {time.monotonic() - began:.0f} s."
            ),
            "",
            *table(answers),
            "",
        ]
    print("\n".join(lines))
    if options.write is not None:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text("\n".join(lines))
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
