"""A training loop of its own with a stopwatch of its own: prints seconds per step of a workload under a recipe.

    python benchmarks/independent.py garage:digits recipe.json --seconds 6

Shares nothing with the instrument but the workload and the changes: a plain loop and time.perf_counter.
"""

import argparse
import contextlib
import json
import time
from pathlib import Path

import msgspec

from netdyno.interventions._base import applied
from netdyno.records.trial import Change
from netdyno.targets.workload import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    recipe = msgspec.json.decode(options.recipe.read_bytes(), type=tuple[Change, ...])
    with applied(recipe, load(options.reference).fresh(options.seed)) as subject, contextlib.ExitStack() as switches:
        for switch in subject.around_turn:
            switches.enter_context(switch())
        batches = subject.feed.epochs()
        per_epoch = subject.feed.steps_per_epoch or 50

        def train(steps: int) -> float:
            began = time.perf_counter()
            for _ in range(steps):
                batch = subject.fed(next(batches))
                with contextlib.ExitStack() as contexts:
                    for context in subject.around_forward:
                        contexts.enter_context(context())
                    loss = subject.loss(subject.forward(subject.callee, batch), batch)
                loss.backward()
                subject.optimizer.step()
                subject.optimizer.zero_grad(set_to_none=subject.set_to_none)
                if subject.log is not None:
                    subject.log(subject.model, float(loss.detach()))
            return time.perf_counter() - began

        train(min(per_epoch, 40))  # warm-up
        whole = max(1, min(per_epoch, 200))
        seconds = steps = 0.0
        while seconds < options.seconds:
            seconds += train(whole)
            steps += whole
        batches.close()
    print(json.dumps({"seconds_per_step": seconds / steps, "steps": steps}))


if __name__ == "__main__":
    main()
