"""Poor results without a cause that could be put right: the right answer is to name none."""

from benchmarks.faults._programs import Program


def _unknown(number, script, tempts, metric, bound) -> Program:
    return Program(id=f"U{number:02}", script=f"unlearnable/{script}", tempts=tempts, metric=metric, bound=bound)


# The bounds say that what can be learned is learned: chance is far below them.
UNKNOWN: tuple[Program, ...] = (
    _unknown(1, "coin_in_the_label", "label noise, under-fitting", "val_acc", 0.54),
    _unknown(2, "four_pixels", "under-fitting, plateau", "val_acc", 0.40),
    _unknown(3, "next_throw", "loss stuck near log K", "val_acc", 0.18),
    _unknown(4, "daily_returns", "not learning", "r2", -0.05),
    _unknown(5, "straight_line_only", "plateau", "r2", 0.15),
)
