"""What the lab asks of the one who rides aboard: one environment variable that holds JSON."""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

VARIABLE = "NETDYNO_ABOARD"


class Config(NamedTuple):
    """The lab's wishes.

    `folder` takes the results. The ride ends after `updates` updates or `seconds` seconds, whichever comes first; a script
    that does not end within `grace_s` more is ended from outside. `hz` is the rate of the line sampler, 0 for none.
    `recipe` holds changes that are on from the start; `line` is the socket on which orders come. `nudge` moves each
    initial weight by so many units in the last place. Without `watch` only updates and losses are counted.
    With `vitals` the numbers are looked at too, for at most `share` of the time; `remedies` are on from start to end.
    `shift` is added to every seed that the script gives to a global generator. Without `census` no update is counted operator by operator. `lab` is the lab's process: whoever rides
    aboard dies with it. The text `"lab": <process>,` is looked for before the JSON is read.
    """

    folder: str
    seed: int | None = 0
    updates: int | None = None
    seconds: float | None = None
    grace_s: float = 10.0
    hz: float = 50.0
    recipe: tuple[Mapping[str, Any], ...] = ()
    line: str | None = None
    nudge: int = 0
    watch: bool = True
    scratch: str | None = None
    warmup: int = 2
    losses: bool = False
    vitals: bool = False
    share: float = 0.015
    remedies: tuple[Mapping[str, Any], ...] = ()
    shift: int = 0
    census: bool = True
    lab: int | None = None


def from_environment(environment: Mapping[str, str] = os.environ) -> Config | None:
    """The wishes that stand in the environment, or None when nobody rides."""
    text = environment.get(VARIABLE)
    if not text:
        return None
    fields = json.loads(text)
    for name in ("recipe", "remedies"):
        fields[name] = tuple(fields.get(name) or ())
    return Config(**{name: value for name, value in fields.items() if name in Config._fields})


def in_words(config: Config) -> str:
    """The wishes as they stand in the environment."""
    fields = config._asdict()
    return json.dumps({"lab": fields.pop("lab"), **fields})
