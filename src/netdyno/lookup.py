"""From the words of somebody who sees a symptom to what it is from, how to tell, and what helps."""

import difflib
import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

# Words that every symptom shares say nothing about it.
IDLE = frozenset(
    [
        "a",
        "after",
        "all",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "can",
        "do",
        "does",
        "during",
        "every",
        "for",
        "from",
        "get",
        "gets",
        "go",
        "goes",
        "has",
        "have",
        "i",
        "in",
        "into",
        "is",
        "it",
        "its",
        "keep",
        "keeps",
        "model",
        "my",
        "net",
        "network",
        "no",
        "not",
        "of",
        "on",
        "only",
        "or",
        "our",
        "over",
        "so",
        "that",
        "the",
        "their",
        "then",
        "there",
        "this",
        "to",
        "too",
        "training",
        "until",
        "very",
        "was",
        "we",
        "when",
        "while",
        "why",
        "with",
    ]
)
# One word for what people write in several ways.
SAME = {
    "acc": "accuracy", "cuda": "gpu", "decreases": "falls", "decrease": "falls", "decreasing": "falls", "device": "gpu",
    "diverge": "diverges", "drops": "falls", "drop": "falls", "dropping": "falls", "evaluation": "eval", "exploding": "explode",
    "explodes": "explode", "explosion": "explode", "falling": "falls", "fall": "falls", "gpus": "gpu", "grad": "gradient",
    "grads": "gradient", "gradients": "gradient", "grow": "grows", "growing": "grows", "increases": "rises", "increase": "rises",
    "increasing": "rises", "inf": "infinite", "infinity": "infinite", "jump": "jumps", "jumping": "jumps", "lr": "rate",
    "nans": "nan", "oscillating": "oscillates", "overfit": "overfitting", "overfits": "overfitting", "ram": "memory",
    "rise": "rises", "rising": "rises", "stuck": "stuck", "stays": "stuck", "stagnates": "stuck", "plateaus": "stuck",
    "util": "utilisation", "utilization": "utilisation", "val": "validation", "vanish": "vanishing", "vanishes": "vanishing",
    "workers": "worker", "slower": "slow", "slowly": "slow", "spikes": "spike", "leaks": "leak", "leaking": "leak",
}  # fmt: skip
# Two words are the same one with a slip of the pen from here on: one letter of six.
ALIKE = 0.83
# An answer is sure when most of what was said is in it, and it is clearly ahead of the next one.
SURE, AHEAD = 0.6, 1.15
# Below this, nothing that was said is in it.
WORTH = 0.25


class Symptom(NamedTuple):
    """One row of the table; see the head of `symptoms.toml`."""

    rows: tuple[str, ...]
    symptom: str
    also: tuple[str, ...]
    cause: str
    check: str
    command: str
    rules: tuple[str, ...]
    remedy: str


class Match(NamedTuple):
    """A symptom, and how much of what was said is in it: from 0 to 1."""

    symptom: Symptom
    score: float


class Answer(NamedTuple):
    """The symptoms that fit, best first; `sure` when the first one is clearly meant."""

    matches: tuple[Match, ...]
    sure: bool


@cache
def symptoms() -> tuple[Symptom, ...]:
    """The whole table, in the order in which it is written."""
    rows = tomllib.loads(files("netdyno").joinpath("symptoms.toml").read_text(encoding="utf-8"))["row"]
    return tuple(_symptom(row) for row in rows)


def _symptom(row: dict[str, Any]) -> Symptom:
    return Symptom(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})  # type: ignore[arg-type]


def look_up(words: str) -> Answer:
    """The symptoms that are nearest to somebody's words.

    >>> look_up("my loss goes to NaN").matches[0].symptom.symptom
    'loss is NaN'
    """
    said = tokens(words)
    scored = [Match(each, _score(said, words.lower(), each)) for each in symptoms()]
    near = sorted((each for each in scored if each.score >= WORTH), key=lambda each: -each.score)
    sure = bool(near) and near[0].score >= SURE and (len(near) == 1 or near[0].score >= AHEAD * near[1].score)
    return Answer(tuple(near), sure)


def tokens(text: str) -> tuple[str, ...]:
    """The words that say something, each in one form.

    >>> tokens("The GPU util drops to 30%!")
    ('gpu', 'utilisation', 'falls', '30')
    """
    words = re.findall(r"[a-z0-9_]+", text.lower())
    return tuple(dict.fromkeys(SAME.get(word, word) for word in words if word not in IDLE))


def _score(said: tuple[str, ...], text: str, each: Symptom) -> float:
    """How well the best of a symptom's phrases covers what was said, and is covered by it."""
    if not said:
        return 0.0
    return max(_phrase(said, text, phrase) for phrase in (each.symptom, *each.also))


def _phrase(said: tuple[str, ...], text: str, phrase: str) -> float:
    meant = tokens(phrase)
    if not meant:
        return 0.0
    weights = _weights()
    heard = sum(weights.get(word, 1.0) * _best(word, meant) for word in said) / sum(
        weights.get(word, 1.0) for word in said
    )
    covered = sum(weights.get(word, 1.0) * _best(word, said) for word in meant) / sum(
        weights.get(word, 1.0) for word in meant
    )
    literal = 0.1 if phrase.lower() in text else 0.0
    return min(1.0, 0.65 * heard + 0.35 * covered + literal)


@cache
def _weights() -> dict[str, float]:
    """Rare words say more: `nan` more than `loss`."""
    counts: dict[str, int] = {}
    for each in symptoms():
        for word in {word for phrase in (each.symptom, *each.also) for word in tokens(phrase)}:
            counts[word] = counts.get(word, 0) + 1
    return {word: 1.0 / (1.0 + 0.35 * (count - 1)) for word, count in counts.items()}


@cache
def _alike(word: str, other: str) -> float:
    if word == other:
        return 1.0
    if min(len(word), len(other)) < 4:
        return 0.0
    if word.startswith(other) or other.startswith(word):
        return 0.9
    ratio = difflib.SequenceMatcher(None, word, other).ratio()
    return ratio if ratio >= ALIKE else 0.0


def _best(word: str, others: tuple[str, ...]) -> float:
    return max((_alike(word, other) for other in others), default=0.0)
