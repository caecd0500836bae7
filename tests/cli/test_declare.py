"""A function's keyword-only parameters as a command's arguments."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest

from netdyno.cli._declare import Argument, Option, accepts, first_sentence, parser_of, run_command
from netdyno.errors import NetdynoError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


seen = {}


def paint(
    *,
    wall: Annotated[str, Argument("Which one.")],
    tone: Annotated[Colour, Option("The colour.")] = Colour.RED,
    coats: Annotated[int, Option("How often.", least=1)] = 2,
    only_if: Annotated[list[str] | None, Option("Conditions.", metavar="WHEN")] = None,
    where: Annotated[Path | None, Option("Where to.", short="-w")] = None,
    dry: Annotated[bool, Option("Wait until it is dry.")] = False,
) -> int:
    """Paint a wall.

    It takes 100 % of a day.
    """
    seen.update(wall=wall, tone=tone, coats=coats, only_if=only_if, where=where, dry=dry)
    return 7


def refused(*words):
    with pytest.raises(NetdynoError) as error:
        run_command("paint", paint, words)
    return str(error.value)


def test_what_is_not_given_has_its_default_and_the_answer_is_the_commands():
    assert run_command("paint", paint, ["north"]) == 7
    assert seen == {"wall": "north", "tone": Colour.RED, "coats": 2, "only_if": None, "where": None, "dry": False}


def test_what_is_given_arrives_as_its_type():
    words = ["north", "--tone", "blue", "--coats=3", "--only-if", "sun", "--only-if", "wind", "-w", "house", "--dry"]
    run_command("paint", paint, words)
    assert seen == {
        "wall": "north",
        "tone": Colour.BLUE,
        "coats": 3,
        "only_if": ["sun", "wind"],
        "where": Path("house"),
        "dry": True,
    }


def test_help_has_the_docstring_each_argument_and_the_defaults():
    text = " ".join(parser_of("paint", paint).format_help().split())
    for part in ("netdyno paint", "It takes 100 % of a day.", "red|blue", "--only-if WHEN", "(default: 2)", "-w"):
        assert part in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "wall"),
        (["north", "--tone", "green"], "red, blue"),
        (["north", "--coats", "0"], "from 1 on"),
        (["north", "--coats", "many"], "many"),
        (["north", "--coat", "3"], "did you mean `--coats`?"),
        (["north", "south"], "south"),
    ],
)
def test_what_it_does_not_understand_it_says_in_three_lines(words, says):
    text = refused(*words)
    assert says in text
    assert len(text.splitlines()) == 3


def test_flags_are_not_abbreviated():
    assert "--dr" in refused("north", "--dr")


def test_a_list_of_commands_shows_the_first_sentence():
    assert first_sentence(paint) == "Paint a wall."


def test_a_command_is_asked_what_it_accepts():
    assert accepts(paint, "wall")
    assert not accepts(paint, "store")


def test_a_flag_may_be_called_like_a_word_of_pythons():
    given = {}

    def wait(
        *,
        for_: Annotated[int, Option("How long.")] = 1,
        global_: Annotated[bool, Option("Everywhere.")] = False,
    ) -> int:
        """Wait."""
        given.update(for_=for_, global_=global_)
        return 0

    run_command("wait", wait, ["--for", "3", "--global"])
    assert given == {"for_": 3, "global_": True}
