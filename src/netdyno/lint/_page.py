"""The page of all lints, and of the wrong forms that no source shows: `python -m netdyno.lint._page > docs/lint.md`."""

import inspect
import sys

from netdyno import plugins
from netdyno.lint._base import SURE, Lint, lints

# The catalogue of wrong forms that this room was written from.
ROWS = tuple(f"C-{number:03}" for numbers in (range(1, 41), range(50, 96), range(100, 123)) for number in numbers)

HEAD = """\
# Lints

`netdyno lint` reads sources and runs nothing. This page is written by `python -m netdyno.lint._page > docs/lint.md`.

*Found* is certain from the source and ends with exit status 1; *suspected* is told, and counts with `--strict`. A comment
`# netdyno: ignore[id]` excuses a line.
"""

REST = """\
## What no lint finds, and why

These rows of the catalogue of wrong forms are not decided by a source alone.

| Row | Wrong form | Why no lint |
| --- | --- | --- |
"""

# The wrong form in short, and why a source does not show it.
NOT_LINTED = {
    "C-007": ("AdamW with a learning rate of 0.02 and no warm-up", "which rate is too high only training shows: `exploding-learning-rate`"),
    "C-008": ("no guard against non-finite norms around clipping", "nearly every healthy script has none; the doctor looks whether it was needed"),
    "C-009": ("a prefetch without bounds", "bytes of a batch are known when it is there: `worker-memory`"),
    "C-011": ("`rot90` in place of any angle", "a choice, unless the law of angles was to stay the same"),
    "C-012": ("dropout before GELU", "a model of its own; wrong only as a replacement of the other order"),
    "C-016": ("a threshold of a norm that is False for NaN", "the doctor looks at what is not finite itself: `non-finite-backward`"),
    "C-017": ("a dropout check that only prints", "nothing breaks; `random-evaluation` and `training-mode-evaluation` check it"),
    "C-022": ("value clipping in place of norm clipping", "a choice that some models need"),
    "C-028": ("`nvidia-smi dmon -s u` for communication", "a command does not say what it is asked for"),
    "C-031": ("`time.time()` and memory of the parent only", "right where nobody works beside it, as in most scripts"),
    "C-034": ("warm-up with one shape", "which shapes are served is not in the source"),
    "C-035": ("learning rate and decay scaled without naming the optimizer", "advice, not code"),
    "C-036": ("`torch.compile` on PyTorch 1.12", "it fails at once, in PyTorch's words"),
    "C-038": ("a fixed number of workers", "how many cores there are is known when it runs: `excess-workers`"),
    "C-050": ("FLOPs per byte from a timeline", "advice, not code"),
    "C-051": ("parameters x batch x 2 as the memory needed", "advice, not code; memory is measured"),
    "C-054": ("a warm-up that begins at zero", "one lost update, as in most libraries; the doctor looks at the rate: `zero-learning-rate`"),
    "C-059": ("a wrong rule for splitting tensors", "needs the collectives of a run"),
    "C-061": ("both losses of a GAN into both networks", "who clears what in between decides; the doctor follows the gradients: `leaking-gradient`"),
    "C-062": ("BatchNorm counted twice under checkpointing", "counted in a run"),
    "C-064": ("statistics of one layer looked at for all", "nothing breaks"),
    "C-067": ("a 1x1 depthwise before a 1x1 pointwise convolution", "a waste that only the traced model shows"),
    "C-069": ("a training loader as cure of inference", "a source does not say what it is to cure"),
    "C-075": ("CUDA graphs as a switch of fusion", "a command does not say what it is asked for"),
    "C-076": ("groups that change the function", "a model of its own; wrong only as a replacement"),
    "C-081": ("a non-blocking stream so that the main thread does not wait", "right or wrong by what follows at run time"),
    "C-100": ("a final learning rate other than was said", "what was said stands in prose"),
    "C-102": ("the schedule stepped when the scaler skipped", "nearly every script does it, for a step or two: `skipped-updates`"),
    "C-105": ("`if self.training` around `nn.Dropout`", "superfluous, and right"),
    "C-106": ("`no_grad` described as depending on the mode", "prose, not code"),
    "C-107": ("a list of seeds that is not complete", "which generators are used only a run shows"),
    "C-108": ("a check of gain on pre-activations", "needs the activations of a run"),
    "C-109": ("a one-cycle schedule as a range test", "a source does not say what it is for"),
    "C-111": ("post-normalisation recommended", "a choice; the doctor looks at gradients: `vanishing-gradient`"),
    "C-112": ("focal weight on the wrong class", "which class is rare the data says: `hidden-imbalance`"),
    "C-114": ("patience counted one too high", "what was meant stands in prose: `early-decay`"),
    "C-115": ("ImageNet constants for all images", "close enough for most; `unscaled-features` measures"),
    "C-117": ("an online tracker required", "a choice"),
    "C-118": ("an ambiguous contrast factor", "prose, not code"),
    "C-119": ("linear scaling from the current batch", "what the rate was measured at is not in the source"),
    "C-120": ("a default of clipping that does not exist", "leaving it out fails at once, in PyTorch's words"),
    "C-121": ("min-max scaling of embeddings", "a choice; wrong only by its effect"),
}  # fmt: skip


def render() -> str:
    """The whole page."""
    found = [each for each in lints() if isinstance(each, Lint)]
    rest = "\n".join(f"| {row} | {what} | {why} |" for row, (what, why) in NOT_LINTED.items())
    rows = sum(row not in NOT_LINTED for row in ROWS)
    count = f"{len(found)} lints; {rows} of the {len(ROWS)} rows of the catalogue of wrong forms have one.\n"
    return "\n".join((HEAD, count, *(_section(each) for each in found), REST + rest + "\n"))


def _section(each: Lint) -> str:
    module = dict(plugins.modules("lint"))[each.id]
    text = inspect.getdoc(module) or ""
    rows = f" · {', '.join(each.ledger)}" if each.ledger else ""
    state = "found" if each.confidence >= SURE else "suspected"
    return f"## {each.id}\n\n{state} · {each.layer} · {each.stage}{rows}\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(render())
