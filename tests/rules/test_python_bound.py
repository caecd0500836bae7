"""When a slow optimizer is the same sickness once more."""

from netdyno.rules.python_bound import _case, python_bound


def test_where_most_work_is_calls_it_explains_a_slow_optimizer():
    assert python_bound(*_case(python=0.008, operators=0.002, calls=400)).explains == ("optimizer-bound",)


def test_where_a_third_is_calls_it_explains_nothing():
    assert python_bound(*_case(python=0.003, operators=0.007, calls=10)).explains == ()


def test_a_table_without_time_is_not_judged():
    assert python_bound(*_case(python=0.0, operators=0.0, calls=0)) is None
