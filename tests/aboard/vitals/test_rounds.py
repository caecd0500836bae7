"""Which printed numbers are taken for which values."""

import pytest

pytest.importorskip("torch")

from netdyno.aboard.vitals.rounds import NUMBER, _shows


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("0.9133", 0.91328, True),
        ("0.9133", 0.9140, False),
        ("91.33", 0.91328, True),
        ("91.3", 0.9999, False),
    ],
)
def test_a_number_shows_a_value_as_far_as_its_digits_go(text, value, shown):
    assert _shows(text, value) == shown


def test_numbers_with_digits_behind_the_point_are_read():
    assert NUMBER.findall("epoch 12: val loss 0.4132, acc 91.25%, v1.2.3") == ["0.4132", "91.25"]
