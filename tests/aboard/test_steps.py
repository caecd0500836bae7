from netdyno.aboard.steps import BACKWARD, CLIP, DATA, FORWARD, LOADER, STEP, SYNC, Steps, in_words, period

PLAIN = (DATA, FORWARD, BACKWARD, STEP)
LOGGED = (SYNC, *PLAIN)


def finished(*updates, expected=1):
    steps = Steps()
    for optimizer, key in updates:
        steps.events.extend(key)
        steps.finish(optimizer, expected)
    return steps


def test_an_event_string_tells_repeats_by_a_number():
    assert in_words((DATA, FORWARD, FORWARD, BACKWARD, STEP + 1)) == "data fwd*2 bwd step1"


def test_a_plain_script_repeats_after_one_update():
    assert finished(*[(0, PLAIN)] * 4).cycle == 1


def test_logging_and_the_end_of_an_epoch_do_not_hide_the_period():
    updates = [(0, LOGGED if i % 10 == 9 else (LOADER, *PLAIN) if i % 25 == 0 else PLAIN) for i in range(40)]
    assert period(updates) == 1


def test_a_gan_repeats_after_two_updates():
    assert period([(0, (FORWARD, BACKWARD, BACKWARD, STEP)), (1, (FORWARD, BACKWARD, STEP + 1))] * 4, 2) == 2


def test_five_critic_updates_and_one_of_the_generator_are_a_period_of_six():
    assert period(([(0, PLAIN)] * 5 + [(1, PLAIN)]) * 3, 2) == 6


def test_before_all_optimizers_have_stepped_nothing_is_said():
    assert period([(0, PLAIN)] * 5, expected=2) is None


def test_an_optimizer_that_never_steps_is_not_waited_for_for_ever():
    assert period([(0, PLAIN)] * 30, expected=2) == 1


def test_one_optimizer_that_takes_turns_has_a_period_of_two():
    assert period([(0, (FORWARD, BACKWARD, STEP)), (0, (FORWARD, BACKWARD, CLIP, STEP))] * 6) == 2


def test_free_running_episodes_have_updates_all_the_same():
    assert period([(0, (FORWARD,) * (n % 17 + 2)) for n in range(40)]) == 1


def test_kinds_of_updates_are_counted():
    assert finished((0, PLAIN), (0, LOGGED), (0, PLAIN)).words() == {
        "data fwd bwd step0": 2,
        "sync data fwd bwd step0": 1,
    }


def test_a_script_of_endless_variety_does_not_fill_the_memory():
    steps = finished(*[(0, tuple([FORWARD] * n)) for n in range(400)])
    assert sum(steps.kinds.values()) == 400
    assert len(steps.kinds) <= 201
