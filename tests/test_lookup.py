"""The table of symptoms: every row is reachable, and everything it names exists."""

import pytest

from netdyno.cli._app import commands
from netdyno.cli._options import files_of
from netdyno.lookup import look_up, symptoms, tokens

SYMPTOMS = {each.symptom: each for each in symptoms()}


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_every_symptom_is_found_by_its_own_words(symptom):
    answer = look_up(symptom)
    assert answer.matches[0].symptom.symptom == symptom


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_every_other_wording_leads_there_or_names_it_among_the_first(symptom):
    for words in SYMPTOMS[symptom].also:
        first = [each.symptom.symptom for each in look_up(words).matches[:3]]
        assert symptom in first, words


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_its_command_exists(symptom):
    program, command, *_ = SYMPTOMS[symptom].command.split()
    assert program == "netdyno"
    assert command in commands()


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_every_rule_that_it_names_exists(symptom):
    there = {*files_of("rules"), *files_of("lint"), *files_of("interventions")}
    assert set(SYMPTOMS[symptom].rules) <= there


def test_all_rows_of_the_catalogue_are_answered():
    rows = {row for each in symptoms() for row in each.rows}
    missing = {f"D-{number:03}" for number in range(1, 75)} - rows
    assert missing == set()
    assert {f"Q{number}" for number in range(1, 6)} | {f"R{number}" for number in range(1, 13)} <= rows


@pytest.mark.parametrize(
    ("words", "symptom"),
    [
        ("loss goes to NaN", "loss is NaN"),
        ("my loss becomes nan after 200 steps", "loss is NaN"),
        ("CUDA out of memory", "out of memory during training"),
        ("gpu utilization is only 30%", "GPU utilisation is low"),
        ("memory keeps growing every epoch", "memory grows steadily"),
        ("val loss goes up while train loss goes down", "validation loss rises while training loss falls"),
        ("the model does not learn", "loss falls slowly"),
        ("exploding gradients", "gradient norm is large"),
        ("different predictions in production", "predictions differ between training and inference"),
        ("ddp slower than single gpu", "several GPUs are not faster than one"),
        ("accuracy drop after int8 quantization", "accuracy collapses after quantisation or conversion"),
        ("grad is None", "some parameters do not change"),
        ("dataloader worker killed", "loader workers are killed"),
        ("p99 latency spikes", "latency has spikes"),
        ("accurcy stuck at 50 %", "loss falls but accuracy stays at chance"),
    ],
)
def test_what_people_write_leads_to_what_they_mean(words, symptom):
    assert symptom in [each.symptom.symptom for each in look_up(words).matches[:3]]


def test_words_that_say_nothing_find_nothing():
    assert look_up("the and of").matches == ()
    assert look_up("").matches == ()


def test_one_word_stands_for_its_sisters():
    assert tokens("gradients exploding") == tokens("grad explode")
