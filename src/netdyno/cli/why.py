"""What a symptom is mostly from, and what a rule means."""

import difflib
from typing import Annotated

from netdyno import lookup
from netdyno.cli import _options as options
from netdyno.cli._declare import Argument
from netdyno.cli._endings import DONE, NO
from netdyno.cli._options import AsJson, as_json
from netdyno.cli._output import put, tell, width
from netdyno.errors import NetdynoError
from netdyno.lookup import Match, Symptom

ROOMS = ("rules", "lint", "audits", "interventions")
KINDS = {
    "rules": ("rule", "a rule of `netdyno doctor`"),
    "lint": ("lint", "a lint of `netdyno lint`"),
    "audits": ("audit", "an audit of `netdyno data`"),
    "interventions": ("change", "a change that `netdyno tune` tries"),
}
# More than this many near ones nobody reads.
SHOWN = 5


def why(
    *,
    words: Annotated[
        list[str] | None, Argument("What you see, in your words, or the id of a rule.", metavar="SYMPTOM|RULE")
    ] = None,
    json: AsJson = False,
) -> int:
    """Say what a symptom is mostly from, how to tell, and what helps.

    `netdyno why "loss goes to NaN"` answers from a table of symptoms; `netdyno why RULE-ID` explains a rule, a lint or an audit;
    alone it lists all symptoms.
    """
    text = " ".join(words or ()).strip()
    if not text:
        return _all(json=json)
    room = _room_of(text)
    if room is not None:
        return _explained(text.replace("_", "-"), room, json=json)
    answer = lookup.look_up(text)
    if json:
        put(as_json({"sure": answer.sure, "matches": [_row(each) for each in answer.matches[:SHOWN]]}))
    elif answer.sure:
        put(told(answer.matches[0].symptom))
        _others(answer.matches[1:3])
    elif answer.matches:
        tell(f"I am not sure what is meant by `{text}`. The nearest symptoms:")
        put("\n".join(f"  {each.symptom.symptom}" for each in answer.matches[:SHOWN]))
        put(f"\n{told(answer.matches[0].symptom)}")
    else:
        raise _unknown(text)
    return DONE if answer.matches else NO


def told(each: Symptom) -> str:
    """One symptom as a person reads it."""
    parts = (
        ("Mostly:", each.cause),
        ("Check:", each.check),
        ("Here:", each.command),
        ("Help:", each.remedy),
        ("Rules:", ", ".join(each.rules)),
    )
    return "\n".join((each.symptom, *(_paragraph(head, text) for head, text in parts)))


def _paragraph(head: str, text: str) -> str:
    import textwrap

    return textwrap.fill(
        text, width=min(width(), 100), initial_indent=f"  {head:<8}", subsequent_indent=" " * 10, break_on_hyphens=False
    )


def _others(matches: tuple[Match, ...]) -> None:
    near = [each.symptom.symptom for each in matches if each.score >= lookup.SURE / 1.5]
    if near:
        put(f"\nNear it: {'; '.join(near)}")


def _all(*, json: bool) -> int:
    table = lookup.symptoms()
    if json:
        put(as_json([each._asdict() for each in table]))
    else:
        put("\n".join(each.symptom for each in table))
        tell(f"{len(table)} symptoms; `netdyno why SYMPTOM` says more of one")
    return DONE


def _row(each: Match) -> dict[str, object]:
    return {**each.symptom._asdict(), "score": round(each.score, 3)}


def _room_of(text: str) -> str | None:
    name = text.replace("_", "-")
    return next((room for room in ROOMS if name in options.files_of(room)), None)


def _explained(name: str, room: str, *, json: bool) -> int:
    """What the docstring of a plug-in says. Nothing is imported: an intervention would bring PyTorch."""
    text = _docstring(name, room)
    kind, about = KINDS[room]
    put(as_json({"id": name, "kind": kind, "explains": text}) if json else f"{name} ({about})\n\n{text}")
    return DONE


def _docstring(name: str, room: str) -> str:
    import ast
    from importlib.resources import files

    file = files(f"netdyno.{room}").joinpath(f"{name.replace('-', '_')}.py")
    if not file.is_file():
        return f"it comes from another package, in the room `{room}`"
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def _unknown(text: str) -> NetdynoError:
    ids = [name for room in ROOMS for name in options.files_of(room)]
    near = difflib.get_close_matches(
        text.lower(), [*ids, *(each.symptom.lower() for each in lookup.symptoms())], n=1, cutoff=0.5
    )
    return NetdynoError(
        f"nothing is known of `{text}`",
        because=f"none of the {len(lookup.symptoms())} symptoms has these words",
        hint=f"did you mean `{near[0]}`?" if near else "`netdyno why` lists all symptoms",
    )
