"""The script ended because a loader's worker did not live.

Looks for:  the errors of workers that were killed, cannot be started, or cannot be sent what they need.
Matters:    a worker is a process: it needs memory of its own, and under spawn everything it gets must be picklable.
Try:        functions at module level instead of lambdas, `if __name__ == "__main__":` around the script's start,
            fewer workers.
Not this:   an error in the data set itself, which comes with its own traceback.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import Ending, Place
from netdyno.rules._base import rule
from netdyno.rules._endings import failure, matched


@rule(stage="failure")
def dead_worker(ending: Ending) -> Finding | None:
    if not matched(ending, "dead-worker"):
        return None
    return failure(
        ending,
        says="a worker process died or could not be started (1 is enough)",
        fix='use module-level functions instead of lambdas and local classes, guard the start with `if __name__ == "__main__":`, or try `num_workers=0` to see the error itself',
        layer="data",
    )


def _ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=31), updates=3)


SICK = (
    (_ended("DataLoader worker (pid(s) 4711) exited unexpectedly"),),
    (_ended("Can't pickle local object <function main.<locals>.<lambda> at 0x7f>"),),
)
# Another error.
WELL = ((_ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)"),),)
