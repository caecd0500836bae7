"""An augmentation policy as a file: transforms with the numbers that say how strong they are (ledger A-081).

domain = "medical"                 # optional: only contrast and noise are then harmless

[[transform]]
name = "rotate"
degrees = 10
"""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from netdyno.errors import NetdynoError

# Strength is one of these; how often a transform is applied is not.
FREQUENCY = frozenset(("p", "prob", "probability", "seed", "name", "type", "always_apply"))
# Nothing about these is weak or strong: they are applied, or not, as often as `p` says.
PLAIN = frozenset(("horizontalflip", "verticalflip", "fliplr", "flipud", "flip", "transpose"))
LIGHT = ("contrast", "brightness", "saturation")
MEDICAL = ("contrast", "noise")
# A picture whose contrast, brightness or saturation is less than half or more than twice of what it was is another picture.
STRONG_LOW, STRONG_HIGH = 0.5, 2.0


class Transform(NamedTuple):
    """One transform of a policy, with its numbers as they were written."""

    name: str
    settings: Mapping[str, Any]

    @property
    def plain(self) -> str:
        """The name without what libraries put around it: `RandomHorizontalFlip` and `horizontal_flip` are one."""
        return re.sub(r"[^a-z]", "", self.name.lower()).removeprefix("random")

    @property
    def quantified(self) -> bool:
        """Whether numbers say how strong it is; of a mirror it is how often."""
        wanted = {"p", "prob", "probability"} if self.plain in PLAIN else set(self.settings) - FREQUENCY
        return any(_numeric(self.settings[key]) for key in wanted if key in self.settings)


class Policy(NamedTuple):
    """What a file asks for."""

    transforms: tuple[Transform, ...]
    domain: str = ""


def read(path: Path) -> Policy:
    """The policy in a TOML or JSON file. Raises NetdynoError for one that cannot be read."""
    try:
        text = path.read_text()
        held = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise NetdynoError(
            f"cannot read the policy `{path}`",
            because=str(error),
            hint='write TOML with [[transform]], name = "rotate", degrees = 10',
        ) from error
    return parsed(held)


def parsed(held: Any) -> Policy:
    """A policy from what a file or a person wrote: a list of transforms, or a mapping with `transform` and `domain`."""
    if isinstance(held, Mapping):
        listed = held.get("transform", held.get("transforms", ()))
        domain = str(held.get("domain", ""))
    else:
        listed, domain = held, ""
    if not isinstance(listed, list | tuple) or not listed:
        raise NetdynoError(
            "the policy has no transform",
            because="it holds neither a list nor `transform`",
            hint='write TOML with [[transform]], name = "rotate", degrees = 10',
        )
    return Policy(tuple(_transform(each) for each in listed), domain)


def validated(policy: Policy) -> tuple[str, ...]:
    """What each transform does, in words with numbers. Raises NetdynoError when one has none: nobody could repeat it."""
    bare = [each.name for each in policy.transforms if not each.quantified]
    if bare:
        raise NetdynoError(
            f"the policy does not say how strong `{'`, `'.join(bare)}` is",
            because="a transform without numbers is another one in every library and version",
            hint="give it its range, such as degrees = 10 or contrast_factor = 0.2; a mirror gets p = 0.5",
        )
    return tuple(meaning(each) for each in policy.transforms)


def meaning(transform: Transform) -> str:
    """What a transform does, in words: a factor multiplies, a jitter is a range around 1.

    >>> meaning(Transform("adjust_contrast", {"contrast_factor": 0.2}))
    'adjust_contrast: always 0.2 times the contrast (strong)'
    >>> meaning(Transform("ColorJitter", {"contrast": 0.2}))
    'ColorJitter: 0.8 to 1.2 times the contrast'
    """
    ranges = factors(transform)
    if not ranges:
        numbers = ", ".join(
            f"{key} {value}" for key, value in transform.settings.items() if key not in {"name", "type"}
        )
        return f"{transform.name}: {numbers}"
    told = [_told(what, low, high) for what, (low, high) in ranges.items()]
    return f"{transform.name}: {' and '.join(told)}"


def factors(transform: Transform) -> dict[str, tuple[float, float]]:
    """By what contrast, brightness and saturation are multiplied, from the least to the most."""
    found = {}
    for key, value in transform.settings.items():
        what = next(
            (each for each in LIGHT if each in key or (each in transform.plain and key in {"factor", "limit"})), None
        )
        if what is None or not _numeric(value):
            continue
        if isinstance(value, list | tuple):
            found[what] = (float(value[0]), float(value[-1]))
        elif "factor" in key or transform.plain.startswith("adjust"):
            found[what] = (float(value), float(value))
        else:
            found[what] = (max(0.0, 1 - float(value)), 1 + float(value))
    return found


def strong(transform: Transform) -> bool:
    """Whether some of what it makes is less than half or more than twice of what it was, in contrast, brightness or saturation."""
    return any(low < STRONG_LOW or high > STRONG_HIGH for low, high in factors(transform).values())


def unfit(policy: Policy) -> tuple[str, ...]:
    """The transforms that a medical policy must not hold: a mirrored organ is on the other side, a turned one is another view."""
    if policy.domain != "medical":
        return ()
    return tuple(each.name for each in policy.transforms if not any(kind in each.plain for kind in MEDICAL))


def _told(what: str, low: float, high: float) -> str:
    mark = " (strong)" if low < STRONG_LOW or high > STRONG_HIGH else ""
    return f"always {low:g} times the {what}{mark}" if low == high else f"{low:g} to {high:g} times the {what}{mark}"


def _numeric(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(_numeric(each) for each in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _transform(held: Any) -> Transform:
    if isinstance(held, str):
        return Transform(held, {})
    if not isinstance(held, Mapping):
        raise NetdynoError(
            "the policy holds something that is no transform",
            because=f"`{held!r}` has no name",
            hint='write TOML with [[transform]], name = "rotate", degrees = 10',
        )
    name = held.get("name", held.get("type"))
    if name is None and len(held) == 1:
        (name, inside), *_ = held.items()
        held = inside if isinstance(inside, Mapping) else {"value": inside}
    return Transform(str(name), {key: value for key, value in held.items() if key not in {"name", "type"}})
