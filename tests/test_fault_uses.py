"""Which lines are as right to point at as the changed ones."""

import pytest
from benchmarks.faults._base import lines_changed
from benchmarks.faults._uses import lines_used


def used(before: str, after: str) -> tuple[int, ...]:
    return lines_used(before, after, lines_changed(before, after))


def test_lines_that_use_a_changed_name_are_right_until_it_has_another_value():
    before = "rate = 1\nmake(rate)\nrate = 2\nmake(rate)\n"
    assert used(before, before.replace("rate = 1", "rate = 9")) == (2,)


def test_a_constant_of_the_module_is_used_in_functions_unless_they_have_their_own():
    before = "LR = 1\ndef f():\n    g(LR)\ndef h(LR):\n    g(LR)\n"
    assert used(before, before.replace("LR = 1", "LR = 9")) == (3,)


def test_two_steps_away_is_too_far():
    before = "a = 1\nb = a\nc(b)\n"
    assert used(before, before.replace("a = 1", "a = 2")) == (2,)


def test_a_changed_functions_callers_are_right():
    before = "def f(x):\n    y = x\n    return y + 1\nz = f(2)\n"
    assert used(before, before.replace("y + 1", "y + 2")) == (4,)


def test_a_constructor_is_right_where_the_object_is_made():
    before = "class Net:\n    def __init__(self):\n        self.p = 1\n    def forward(self, x):\n        return x\nnet = Net()\nnet(3)\n"
    assert used(before, before.replace("p = 1", "p = 2")) == (6,)
    assert used(before, before.replace("return x", "return 0 * x")) == (7,)


def test_what_was_taken_out_of_a_loop_is_missing_in_the_loop():
    before = "for x in xs:\n    o.zero_grad()\n    loss = f(x)\n    loss.backward()\n    o.step()\nprint(1)\n"
    assert used(before, before.replace("    o.zero_grad()\n", "")) == (3, 4)


def test_what_was_taken_out_of_a_function_is_missing_where_its_names_are():
    before = "def f(m):\n    a = 1\n    b = 2\n    m.eval()\n    c = 3\n    d = 4\n    m(c)\n"
    assert 6 in used(before, before.replace("    m.eval()\n", ""))


@pytest.mark.parametrize("text", ["x = 1\n", "def f():\n    pass\n"])
def test_nothing_changed_is_nothing_used(text: str):
    assert used(text, text) == ()


def test_a_changed_default_is_used_where_its_argument_is():
    before = "def f(width=3):\n    a = 1\n    b = 2\n    return g(width)\n"
    assert used(before, before.replace("width=3", "width=1")) == (4,)
