"""Findings as SARIF 2.1.0, which code hosts and editors show beside the line."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from netdyno.records.diagnosis import Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"
# Where a finding counts as found; below, it is a suspicion, which no gate should stop at.
SURE = 0.7


def render(findings: Iterable[Finding], rules: Mapping[str, str], *, root: str) -> str:
    """One SARIF run. `rules` says in a sentence what each rule looks for; files are named from the folder `root`."""
    told = list(findings)
    ids = sorted({*rules, *(finding.id for finding in told)})
    driver = {
        "name": "netdyno",
        "version": version("netdyno"),
        "rules": [_rule(name, rules.get(name, name)) for name in ids],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"ROOT": {"uri": f"{Path(root).resolve().as_uri()}/"}},
        "results": [_result(finding, ids, root) for finding in told],
    }
    return json.dumps({"$schema": SCHEMA, "version": VERSION, "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(name: str, about: str) -> dict[str, Any]:
    return {"id": name, "shortDescription": {"text": about}, "help": {"text": f"netdyno why {name}"}}


def _result(finding: Finding, ids: list[str], root: str) -> dict[str, Any]:
    text = f"{finding.says}. Fix: {finding.fix}" if finding.fix else finding.says
    place = _location(finding, root)
    return {
        "ruleId": finding.id,
        "ruleIndex": ids.index(finding.id),
        "level": _level(finding),
        "message": {"text": text},
        **({"locations": [place]} if place else {}),
        "partialFingerprints": {"netdyno/v1": _fingerprint(finding, root)},
        "properties": {"layer": finding.layer, "stage": finding.stage, "confidence": finding.confidence},
    }


def _level(finding: Finding) -> str:
    if finding.confidence < SURE or finding.stage == "note":
        return "note"
    return "error" if finding.stage == "failure" else "warning"


def _location(finding: Finding, root: str) -> dict[str, Any] | None:
    where = finding.where
    if where is None or where.file is None:
        return None
    physical: dict[str, Any] = {"artifactLocation": _artifact(where.file, root)}
    if where.line:
        physical["region"] = {"startLine": where.line}
    return {"physicalLocation": physical}


def _artifact(file: str, root: str) -> dict[str, str]:
    """A file under the root by its way from there; another one by its whole address."""
    full = (Path(root) / file).resolve()
    try:
        return {"uri": full.relative_to(Path(root).resolve()).as_posix().replace(" ", "%20"), "uriBaseId": "ROOT"}
    except ValueError:
        return {"uri": full.as_uri()}


def _fingerprint(finding: Finding, root: str) -> str:
    """The same for the same finding after lines moved: nothing of it depends on a number of a line."""
    file = finding.where.file if finding.where is not None and finding.where.file else ""
    name = _artifact(file, root)["uri"] if file else ""
    return hashlib.sha256(f"{finding.id}\n{name}\n{finding.says}".encode()).hexdigest()[:32]
