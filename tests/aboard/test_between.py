"""Time in no watched call is put down to the lines between the call before and the call after."""

from netdyno.aboard import between
from netdyno.aboard.account import FORWARD, OPTIMIZER, Account, Clocks


def counted():
    ticks = iter(range(0, 10**9, 1000))
    account = Account(Clocks(lambda: next(ticks), lambda: 0, lambda: 0))
    account.stretches = between.Stretches()
    account.start()
    return account


def test_a_gap_lies_between_the_line_of_one_call_and_the_line_of_the_next():
    account = counted()
    between.look(account, True)
    account.push(FORWARD)
    account.pop()
    account.push(OPTIMIZER)
    here = account.stretches.summary()["after forward"]
    file, first, last, share, framework = here[0]
    assert file == __file__
    assert (last - first, share, framework) == (1, 1.0, "")


def test_nobody_walks_the_stack_while_nobody_looks():
    account = counted()
    between.look(account, True)
    between.look(account, False)
    assert type(account) is Account
    account.push(FORWARD)
    account.pop()
    account.push(OPTIMIZER)
    assert account.stretches.summary() == {}


def test_phases_add_up_whether_anybody_looks_or_not():
    account = counted()
    for looking in (True, False, True):
        between.look(account, looking)
        account.push(FORWARD)
        account.pop()
    began, ended = 0, account.seen
    assert account.wall == ended - began
