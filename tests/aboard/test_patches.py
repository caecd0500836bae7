from netdyno.aboard.patches import Patches


class Owner:
    first = staticmethod(lambda: "first")
    second = staticmethod(lambda: "second")


def instead(_original):
    def stand_in():
        return "ours"

    return stand_in


def test_some_attributes_are_put_back_before_the_others():
    patches = Patches()
    for name in ("first", "second"):
        patches.replace(name, Owner, name, instead)
    patches.drop(Owner, ["first"])
    assert (Owner.first(), Owner.second()) == ("first", "ours")
    patches.undo()
    assert (Owner.first(), Owner.second()) == ("first", "second")


def test_what_somebody_else_has_replaced_since_is_theirs_to_put_back():
    patches = Patches()
    patches.replace("first", Owner, "first", instead)
    ours, Owner.first = Owner.first, staticmethod(lambda: "theirs")
    patches.drop(Owner, ["first"])
    assert Owner.first() == "theirs"
    Owner.first = ours
    patches.undo()
    assert Owner.first() == "first"
