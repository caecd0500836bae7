"""What comes out of the last layer in training.

Shows:     mean, spread and extremes of the output, how much it differs from sample to sample (nothing: the model has
           collapsed onto one answer), and now and then a histogram.
Costs:     some ten thousand values, evenly from the output, at each look.
Not seen:  outputs other than the first tensor (or `logits`), and what a model computes without being called as a module.
"""

from typing import Any, ClassVar

import numpy as np

from netdyno.monitor.gauges._base import Gauge, Told, first_tensor, readable, spread_out

SAMPLE = 16_384
BINS = 32
# The first histograms come with the first looks, each later one when the updates have grown by a sixteenth: about as many again
# for every doubling, and at most 400 lines of 400 bytes.
GROWTH, MOST = 1 / 16, 400
MOST_MODELS = 8


class Output(Gauge):
    """Reads a sample of the output of each model after its call."""

    series: ClassVar[dict[str, Told]] = {
        "output/mean": Told("", "mean of the output's values"),
        "output/std": Told("", "standard deviation of the output's values"),
        "output/min": Told("", "the smallest value"),
        "output/max": Told("", "the largest value"),
        "output/spread": Told(
            "", "how much a unit differs from sample to sample: standard deviations over the batch, mean"
        ),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.next: dict[str, float] = {}
        self.histograms = 0
        self.marks: dict[int, str] = {}

    def called(self, call: Any) -> None:
        """After a training call."""
        output = readable(first_tensor(call.output)) if call.grad else None
        if output is None:
            return
        mark = self._mark_of(call.module)
        if mark is not None:
            self.later(_rows(output), lambda values, at: self._told(mark, values, at))

    def _mark_of(self, module: Any) -> str | None:
        """Nothing for the first model; what is called beside or within named models is numbered as it comes."""
        if id(module) not in self.marks and len(self.marks) < MOST_MODELS:
            name = next((name for name, model in self.models().items() if _bare(model) is _bare(module)), "")
            first = not name or name == next(iter(self.models()))
            self.marks[id(module)] = "" if first and "" not in self.marks.values() else f"@{name or len(self.marks)}"
        return self.marks.get(id(module))

    def _told(self, mark: str, values: Any, at: int) -> None:
        if values.dtype != np.float64:
            values = values.astype(np.float32, copy=False)
        with np.errstate(all="ignore"):  # infinities and NaN are told as what they are
            told = {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
            if len(values) > 1:
                told["spread"] = values.std(axis=0).mean()
        for name, value in told.items():
            self.tell(f"output/{name}{mark}", float(value), at)
        if at >= self.next.get(mark, 0) and self.histograms < MOST:
            self.next[mark] = at + at * GROWTH
            self._histogram(mark, values, at)

    def _histogram(self, mark: str, values: Any, at: int) -> None:
        finite = values[np.isfinite(values)]
        if not len(finite):
            return
        self.histograms += 1
        counts, edges = np.histogram(finite, bins=BINS)
        self.event(
            "histogram", of=f"output{mark}", at=at, edges=edges.tolist(), counts=counts.tolist(),
            not_finite=int(values.size - finite.size),
        )  # fmt: skip


def _bare(model: Any) -> Any:
    """Without a compiler's wrapper, or the one of a parallel training."""
    import torch

    model = getattr(model, "_orig_mod", model)
    parallel = isinstance(model, torch.nn.parallel.DistributedDataParallel | torch.nn.DataParallel)
    return model.module if parallel else model


def _rows(output: Any) -> Any:
    """Samples by units, at most so many values: whole rows where they fit, or else a part of each."""
    if output.dim() < 2 or output.shape[0] < 2:
        return spread_out(output, SAMPLE).reshape(1, -1)
    rows = output.reshape(output.shape[0], -1) if output.is_contiguous() else output.flatten(1)
    samples = rows[:: -(-rows.shape[0] // 256)]
    width = max(1, SAMPLE // samples.shape[0])
    step = -(-samples.shape[1] // width)
    return (samples if step == 1 else samples[:, :: step | 1]).contiguous()


GAUGE = Output
