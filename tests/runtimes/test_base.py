"""What every loaded model is wrapped in: padding to the sizes it was built for, and a look at what it is given."""

import subprocess
import sys

import numpy as np
import pytest

from netdyno.records.deployment import Port, Signature
from netdyno.runtimes import _base as base

PORTS = Signature(inputs=(Port(name="image", dtype="float32", shape=(3, None)),))


def fixed(*sizes):
    seen = []

    def call(arrays):
        assert len(arrays[0]) in sizes
        seen.append(len(arrays[0]))
        return (arrays[0].sum(1, keepdims=True), arrays[0][:, 0])

    return call, seen


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 9])
def test_any_number_of_rows_is_answered_row_by_row(rows):
    call, seen = fixed(2, 4)
    given = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    total, first = base.padded(call, (4, 2))((given,))
    assert np.array_equal(total, given.sum(1, keepdims=True))
    assert np.array_equal(first, given[:, 0])
    assert set(seen) <= {2, 4}


def test_without_sizes_nothing_is_padded():
    call, _ = fixed(3)
    assert base.padded(call, ()) is call


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((2, 3), np.float32), "shape"),
        (np.zeros((2, 4, 5), np.float32), "shape"),
        (np.zeros((2, 3, 5), np.float64), "float64"),
        (np.zeros((0, 3, 5), np.float32), "at least one"),
    ],
)
def test_rows_of_another_form_are_refused_in_words(array, says):
    with pytest.raises(ValueError, match=says):
        base.checked(lambda arrays: arrays, PORTS)((array,))


def test_inputs_with_different_numbers_of_rows_are_refused():
    two = Signature(inputs=(PORTS.inputs[0], Port(name="mask", dtype="float32", shape=())))
    with pytest.raises(ValueError, match="same number of rows"):
        base.checked(lambda arrays: arrays, two)((np.zeros((2, 3, 4), np.float32), np.zeros(3, np.float32)))


def test_a_transposed_array_is_laid_out_plainly_before_it_is_given_on():
    given = np.zeros((2, 5, 3), np.float32).transpose(0, 2, 1)
    assert not given.flags.c_contiguous
    (seen,) = base.checked(lambda arrays: arrays, PORTS)((given,))
    assert seen.flags.c_contiguous


def test_a_package_that_is_missing_is_named_with_how_to_have_it():
    assert base.missing(("no_such_package_at_all",)) == "it needs `no_such_package_at_all`: pip install 'netdyno[ship]'"
    assert base.missing(("numpy",)) is None


def test_reading_the_room_does_not_import_torch():
    code = "import sys, netdyno.runtimes._child, netdyno.shipping.package; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
