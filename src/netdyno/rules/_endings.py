"""What errors that end a script look like: which words belong to which rule, and how such a finding is told."""

import re

from netdyno.records.diagnosis import Finding, Layer, Saving
from netdyno.records.evidence import Ending, Place
from netdyno.records.trial import Change

# The words of the library, by the rule that knows their cause. A message that is in none of them is `failed-script`.
WORDS: dict[str, tuple[str, ...]] = {
    "modified-in-place": (
        r"modified by an inplace operation",
        r"a leaf Variable that requires grad",
        r"is a view and is being modified inplace",
    ),
    "freed-graph": (r"backward through the graph a second time",),
    "detached-loss": (r"does not require grad and does not have a grad_fn",),
    "unreduced-loss": (r"grad can be implicitly created only for scalar outputs",),
    "mismatched-shapes": (
        r"mat1 and mat2 shapes cannot be multiplied",
        r"size mismatch, m",
        r"The size of tensor a \(\d+\) must match the size of tensor b",
        r"expected input\[.*\] to have \d+ channels",
        r"shape '\[.*\]' is invalid for input of size",
        r"Expected input batch_size \(\d+\) to match target batch_size",
        r"Sizes of tensors must match except in dimension",
        r"input\.size\(-1\) must be equal to input_size",
        r"to be broadcastable to the same shape|Given normalized_shape=",
    ),
    "mismatched-types": (
        r"must have the same dtype",
        r"expected scalar type \w+ but found \w+",
        r"Found dtype \w+ but expected \w+",
        r"to have the same dtype",
        r"to have one of the following scalar types: Long, Int",
        r"[Ii]nput type \(?[\w.]+\)? and (weight|bias) type \(?[\w.]+\)? should be the same",
        r"not implemented for '\w+'",
    ),
    "index-out-of-range": (
        r"index out of range in self",
        r"Target -?\d+ is out of bounds",
        r"device-side assert triggered",
        r"index -?\d+ is out of bounds for (dimension|axis) \d+ with size \d+",
    ),
    "mixed-devices": (
        r"Expected all tensors to be on the same device",
        r"Input type \(torch\.cuda\.\w+\) and weight type \(torch\.\w+\)",
    ),
    "exhausted-memory": (r"out of memory", r"can't allocate memory", r"Unable to allocate"),
    "dead-worker": (
        r"DataLoader worker \(pid(\(s\))? .*\) (exited unexpectedly|is killed)",
        r"[Cc]an't pickle|cannot pickle|Can't get local object",
        r"before the\s+current process has finished its bootstrapping",
    ),
    "unused-parameters": (r"Expected to have finished reduction in the prior iteration",),
    "unmatched-checkpoint": (r"Error\(s\) in loading state_dict",),
    "uneven-samples": (r"stack expects each tensor to be equal size",),
    "lone-sample": (r"Expected more than 1 value per channel when training",),
    "unbounded-probabilities": (r"all elements of (input|target) should be between 0 and 1",),
}


def matched(ending: Ending, rule: str) -> re.Match[str] | None:
    """Where the message has the words of this rule."""
    return next((found for words in WORDS[rule] if (found := re.search(words, ending.message))), None)


def known(ending: Ending) -> bool:
    """Whether some rule knows the cause of this error."""
    return any(matched(ending, rule) for rule in WORDS)


def numbers(text: str) -> tuple[int, ...]:
    """The whole numbers in a message."""
    return tuple(int(each) for each in re.findall(r"\d+", text))


def failure(
    ending: Ending,
    *,
    says: str,
    fix: str,
    layer: Layer,
    where: Place | None = None,
    remedies: tuple[Change, ...] = (),
) -> Finding:
    """The finding: that the script ended is certain, so it is found; `saves` nothing, it is wrong rather than slow."""
    return Finding(
        says=f"the script ended with an error after {ending.updates} updates: {says}",
        layer=layer,
        saves=Saving(low=0.0, high=0.0),
        because={"updates": float(ending.updates)},
        fix=fix,
        where=where or ending.where,
        remedies=remedies,
    )
