"""Many words are unknown to whoever reads the texts: the vocabulary and the texts don't fit.

Looks for:  words that the vocabulary (where one is named) has not, in training already; words of another split that training has
            not, far more than one part of training has not of another; a spelling that would make them known.
Matters:    all unknown words are one word to the model: what a text says is lost before the first layer.
Try:        split and spell the texts as the vocabulary was made (lower case, punctuation), or make it anew from training.
Not this:   rare words, of which every text has some.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from netdyno.audits._base import Part, Skip, View, audit, wrong
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# The word-level Penn Treebank, with its 10,000 words, has 5 % unknown ones; twice that is more than any vocabulary was made for.
UNKNOWN = 0.10
# Between splits: beyond three times what one half of training does not know of the other, and by a tenth of the words.
TIMES, MORE = 3.0, 0.10
# Another spelling is named when it makes half of the unknown words known.
HALF = 0.5
ENOUGH = 20
SPELLINGS: dict[str, Callable[[str], str]] = {
    "in lower case": str.lower,
    "without punctuation": lambda word: re.sub(r"[^\w]", "", word),
    "in lower case and without punctuation": lambda word: re.sub(r"[^\w]", "", word).lower(),
}


@audit(modalities=("text",))
def unknown_words(view: View) -> Finding | None:
    if len(view.train) < ENOUGH:
        raise Skip(f"fewer than {ENOUGH} texts to learn from")
    vocabulary = view.notes.get("vocabulary")
    if vocabulary is not None:
        return _against_vocabulary(view, frozenset(map(str, vocabulary)))
    return _against_training(view)


def rate(texts: Iterable[str], vocabulary: frozenset[str], spelled: Callable[[str], str] = str) -> float:
    """The share of words that the vocabulary has not.

    >>> rate(["a b", "b c"], frozenset("ab"))
    0.25
    """
    words = [word for text in texts for word in map(spelled, text.split()) if word]
    return sum(word not in vocabulary for word in words) / len(words) if words else 0.0


def _against_vocabulary(view: View, vocabulary: frozenset[str]) -> Finding | None:
    rates = {name: rate(part.x, vocabulary) for name, part in view.parts.items()}
    name = max(rates, key=lambda each: rates[each])
    if rates[name] < UNKNOWN:
        return None
    better = {spelling: rate(view.parts[name].x, vocabulary, how) for spelling, how in SPELLINGS.items()}
    best = min(better, key=lambda each: better[each])
    cured = better[best] < HALF * rates[name]
    hint = f"; {best} it would be {better[best]:.0%}" if cured else ""
    return wrong(
        f"{rates[name]:.0%} of the words of {name} are not among the {len(vocabulary)} of the vocabulary{hint}",
        fix=f"write the words {best} before they are looked up"
        if cured
        else "make the vocabulary from the training texts",
        because={"unknown": rates[name], "words": float(len(vocabulary)), "unknown_respelled": better[best]},
        exhibits=_exhibits(view, view.parts[name], vocabulary),
        confidence=0.9,
    )


def _against_training(view: View) -> Finding | None:
    known = _words(view.train.x)
    order = np.random.default_rng(view.seed).permutation(len(view.train))
    halves = [[view.train.x[row] for row in rows] for rows in np.array_split(order, 2)]
    usual = (rate(halves[0], _words(halves[1])) + rate(halves[1], _words(halves[0]))) / 2
    for part in view.others:
        if len(part) < ENOUGH:
            continue
        met = rate(part.x, known)
        if met < TIMES * usual or met < usual + MORE:
            continue
        return wrong(
            f"training knows {1 - met:.0%} of the words of {part.name}: {met:.0%} are unknown, and between two halves of training "
            f"{usual:.0%}",
            fix="split and spell the texts of all splits alike",
            because={"unknown": met, "usual": usual},
            exhibits=_exhibits(view, part, known),
            confidence=0.9,
            explains=("covariate-shift",),
        )
    return None


def _words(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split())


def _exhibits(view: View, part: Part, known: frozenset[str]) -> Any:
    shares = [rate([text], known) for text in part.x]
    worst = sorted(range(len(shares)), key=lambda row: -shares[row])[:4]
    return tuple(shown(view, part, row, f"{shares[row]:.0%} of its words are unknown") for row in worst)


def _loud(part: Part) -> Part:
    return replace(part, x=[text.upper() for text in part.x])


def _vocabulary(**fields: Any) -> View:
    return specimen("text", notes={"vocabulary": _words(specimen("text").train.x)}, **fields)


SICK = (lambda: specimen("text", val=_loud), lambda: _vocabulary(train=_loud, val=_loud))
WELL = (lambda: specimen("text"), _vocabulary, lambda: specimen("text", sizes=(60, 60)))
