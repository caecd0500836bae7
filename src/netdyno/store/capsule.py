"""The `debug/` folder of a run: all that is needed to get its numbers again, on another day or machine."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from netdyno.errors import StoreError
from netdyno.records import codec
from netdyno.records.evidence import AnyEvidence
from netdyno.records.record import Record
from netdyno.store.disk import write_whole

SCRIPT = """\
#!/bin/sh
# Measures the claim of {run} again; exit status 0 when it holds.
#
#   sh reproduce.sh                    in a fresh virtual environment beside this file
#   PYTHON=/path/python sh reproduce.sh   with a Python that has netdyno and PyTorch already
#   PROJECT=/path sh reproduce.sh      with the project's own folder instead of the copy in source/
#   NETDYNO=/path/to/checkout-or-wheel    what to install instead of {package}
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${{PYTHON:-}}" ]; then
    [ -x "$here/venv/bin/python" ] || python3 -m venv "$here/venv"
    PYTHON=$here/venv/bin/python
    "$PYTHON" -m pip install --quiet --requirement "$here/requirements.txt"
    "$PYTHON" -m pip install --quiet "${{NETDYNO:-{package}}}"
fi
{flags}cd "${{PROJECT:-$here/source}}"
exec "$PYTHON" -m netdyno replay "$here/record.json" "$@"
"""

README = """\
This folder is the capsule of run {run}.

record.json        the whole run as netdyno wrote it, raw samples included
recipe.json        the changes that were kept, in order
config.json        what was asked for and on what, every default written out
seeds.json         every seed, and what was seeded with it
requirements.txt   the exact versions of everything that was installed
build.txt          how PyTorch was built
profiles/          the evidence, one file per kind; after/ is under the kept changes
source/            the file that declares the workload{data}
reproduce.sh       measures the claim again: exit status 0 when the new interval and the claimed one meet
"""


def write_capsule(record: Record, folder: Path, *, project: Path | None = None) -> Path:
    """Write the capsule of a record. `project` is where its source lies (default: here). Raises StoreError.

    An earlier capsule of the same run is replaced file by file.
    """
    source = _source(record, project or Path())
    files = {
        "record.json": codec.encode(record, indent=2),
        "recipe.json": _json(record.recipe),
        "config.json": _json(config(record)),
        "seeds.json": _json(seeds(record)),
        "requirements.txt": "\n".join(requirements(record)).encode() + b"\n",
        "build.txt": (record.environment.build if record.environment else "").encode(),
        "README": README.format(run=record.id, data="" if source else ": none, it is part of a package").encode(),
        "reproduce.sh": script(record).encode(),
        **_profiles(record.evidence, "profiles"),
        **_profiles(record.after, "profiles/after"),
        **source,
    }
    for name, data in files.items():
        write_whole(folder / name, data)
    (folder / "source").mkdir(exist_ok=True)
    (folder / "reproduce.sh").chmod(0o755)
    return folder


def config(record: Record) -> dict[str, Any]:
    """What was asked for and on what: every field, also those that nobody set."""
    where = record.environment
    return {
        "command": record.command,
        "made_by": record.made_by,
        "made_at": record.made_at,
        "target": msgspec.to_builtins(record.target),
        "plan": msgspec.to_builtins(record.plan),
        "threads": where.threads if where else None,
        "device": where.device if where else None,
        "flags": where.flags if where else {},
        "environment": where.id if where else None,
    }


def seeds(record: Record) -> dict[str, Any]:
    """Every seed of the run and what it fixes (ledger A-291)."""
    flags = record.environment.flags if record.environment else {}
    return {
        "plan": record.plan.seed,
        "seeded_with_plan": ["random", "numpy", "torch, all devices", "sampler", "loader workers", "order of arms"],
        "PYTHONHASHSEED": flags.get("PYTHONHASHSEED"),
        "deterministic_algorithms": flags.get("deterministic_algorithms"),
    }


def requirements(record: Record) -> list[str]:
    """One exact version a line, without netdyno itself. Local build labels are no versions that can be installed."""
    packages = record.environment.packages if record.environment else {}
    return [
        f"{name}=={version.partition('+')[0]}" + (f"  # was {version}" if "+" in version else "")
        for name, version in sorted(packages.items())
        if name not in {"netdyno", "pip", "setuptools", "wheel"}
    ]


def script(record: Record) -> str:
    """The shell script that measures the claim again."""
    flags = record.environment.flags if record.environment else {}
    # Switches that are read from the environment as a process starts have capital letters.
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in sorted(flags.items()) if name.isupper()
    )
    return SCRIPT.format(run=record.id, package=record.made_by.replace(" ", "=="), flags=exports)


def _profiles(evidence: Iterable[AnyEvidence], folder: str) -> dict[str, bytes]:
    return {f"{folder}/{type(item).__name__}.json": _json(item) for item in evidence}


def _source(record: Record, project: Path) -> dict[str, bytes]:
    name = record.target.source.partition(":")[0]
    path = project / name
    if not path.is_file():
        return {}  # a module or a built-in workload: it comes with its package
    # Beside the capsule's own files a path such as ../work.py would leave the folder.
    inside = path.name if path.is_absolute() or ".." in Path(name).parts else name
    try:
        return {f"source/{inside}": path.read_bytes()}
    except OSError as error:
        raise StoreError(
            f"cannot copy `{path}` into the capsule",
            because=str(error.strerror or error),
            hint="see to the file's rights; the record itself is written",
        ) from error


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
