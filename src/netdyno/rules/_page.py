"""The page of all rules: `python -m netdyno.rules._page > docs/rules.md`."""

import inspect
import sys

from netdyno import plugins
from netdyno.records.diagnosis import STAGES
from netdyno.rules._base import Rule, judged, rules

HEAD = """\
# Rules

What `netdyno doctor` looks for in the evidence of a run. This page is written by `python -m netdyno.rules._page > docs/rules.md`.
Rules are in the order of causes: what stands in an earlier part can have made what stands in a later one, and is told first.
"""
ABOUT = {
    "failure": "The script ended with an error.",
    "data": "What the model is fed.",
    "structure": "The model, and what of it can learn.",
    "loss": "What the loss is given.",
    "order": "The order of calls in an update.",
    "settings": "Learning rates and other numbers.",
    "use": "Evaluation, saving, exporting, serving.",
    "dynamics": "What is seen while it trains; symptoms of the above, where the above is found.",
    "outcome": "What came of it.",
    "speed": "What costs time or memory for nothing.",
    "bound": "What a step waits for.",
    "nature": "What a program is bound by; of a script a note.",
    "note": "Remarks.",
}


def render() -> str:
    """The whole page."""
    modules = dict(plugins.modules("rules"))
    found = [each for each in rules() if isinstance(each, Rule)]
    parts = [HEAD, f"{len(found)} rules.\n"]
    for stage in STAGES:
        here = [each for each in found if each.stage == stage]
        if here:
            parts.append(f"## {stage}\n\n{ABOUT[stage]}\n")
            parts += [_part(each, modules[each.id]) for each in here]
    return "\n".join(parts)


def _part(each: Rule, module: object) -> str:
    needs = ", ".join(f"{need.kind.__name__}{' if there' if need.optional else ''}" for need in each.needs)
    said = _said(each, module)
    suggests = f"Suggests: {', '.join(f'`{name}`' for name in each.suggests)}.\n\n" if each.suggests else ""
    example = f"Says, for instance: *{said}*\n\n" if said else ""
    return f"### {each.id}\n\n```text\n{inspect.getdoc(module)}\n```\n\n{example}{suggests}Reads: {needs}.\n"


def _said(each: Rule, module: object) -> str:
    """What it says of its first specimen of a sick run."""
    for specimen in getattr(module, "SICK", ())[:1]:
        outcome = judged(each, {type(item): item for item in specimen})
        if outcome.finding is not None:
            return outcome.finding.says
    return ""


if __name__ == "__main__":
    sys.stdout.write(render())
