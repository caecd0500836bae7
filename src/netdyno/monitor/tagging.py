"""A run without a stage or a tag is found by its name and its time only; who keeps many of them can have it refused."""

from collections.abc import Mapping

from netdyno.errors import NetdynoError
from netdyno.records.journal import STAGES

UNTAGGED = (
    "netdyno: this run carries no tag; `--stage optim` or `--tag data=v3` would let `netdyno journals --tag` find it"
)


def is_tagged(stage: str | None, tags: Mapping[str, str] | None) -> bool:
    """Whether there is something to filter a run by."""
    return stage is not None or bool(tags)


def refuse_untagged(stage: str | None, tags: Mapping[str, str] | None) -> None:
    """Raises NetdynoError for a run that nothing could be filtered by."""
    if not is_tagged(stage, tags):
        raise NetdynoError(
            "cannot watch a run without a tag",
            because="a tag was required, and neither a stage nor a tag is given",
            hint=f"name its stage ({', '.join(STAGES)}), or give a tag of your own such as `data=v3`",
        )
