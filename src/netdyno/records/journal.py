"""What a watched run is, what it was told, and what broke its wires."""

from typing import Literal

from msgspec import field

from netdyno.records.base import Noun, Place

# Ledger A-294: one class of variables is searched at a time, and every experiment says which.
STAGES = ("data", "arch", "optim", "reg", "deploy")

Severity = Literal["note", "warning", "trip"]


class RunInfo(Noun, frozen=True, kw_only=True):
    """A run: written once, when it begins.

    `tags` are names and values to filter by; `stage` is one of them where the run belongs to a staged search. `settings`
    is what the user says of it (learning rate, batch size …). `budget` is the share of the time that watching may take.
    """

    id: str
    name: str
    began_at: str
    tags: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str | float | int | bool | None] = field(default_factory=dict)
    script: str = ""
    process: int = 0
    rank: int = 0
    world: int = 1
    machine: str = ""
    device: str = ""
    torch: str = ""
    python: str = ""
    made_by: str = ""
    budget: float = 0.01


class Alert(Noun, frozen=True, kw_only=True):
    """Something that a person should know, once for each cause.

    `cause` is the id of a rule or of a tripwire; `because` holds the measured values, `snapshot` the file to continue
    from where a tripwire took one, `folds` the causes that are symptoms of this one.
    """

    cause: str
    severity: Severity
    says: str
    update: int
    seconds: float
    run: str = ""
    fix: str = ""
    where: Place | None = None
    because: dict[str, float] = field(default_factory=dict)
    snapshot: str | None = None
    folds: tuple[str, ...] = ()
