"""ExecuTorch: any number of rows, in parts where memory was planned for fewer, and int8 that answers alike."""

import numpy as np
import pytest

from netdyno.records.deployment import Running
from netdyno.runtimes.executorch import MOST_ROWS, Executorch, _in_parts
from runtimes.specimens import arrays_of, decibels, expected, exportable, images, release, traits_of


def test_more_rows_than_memory_was_planned_for_are_answered_in_parts():
    asked = []

    def doubled(arrays):
        asked.append(len(arrays[0]))
        return (arrays[0] * 2,)

    rows = np.arange(7.0, dtype=np.float32)
    assert np.array_equal(_in_parts(doubled, 3)((rows,))[0], rows * 2)
    assert asked == [3, 3, 1]


def test_it_names_its_own_extra(monkeypatch):
    from netdyno.runtimes import _base as base

    monkeypatch.setattr(base, "_absent", lambda name: True)
    assert "netdyno[executorch]" in Executorch().unavailable()


def test_int8_is_refused_without_calibration_data():
    assert "calibration" in Executorch("int8").refuses(traits_of(release("Sentences"), calibration=False))


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "least", "most"), [("fp32", 100, 200), ("int8", 15, 80)])
def test_it_answers_any_number_of_rows(precision, least, most, tmp_path):
    pytest.importorskip("executorch")
    runtime = Executorch(precision)
    assert runtime.export(exportable("Pictures"), tmp_path) == ()
    call = runtime.load(tmp_path, Running())
    for count in (1, 8, MOST_ROWS, MOST_ROWS + 5):
        tensors = (images(count, seed=9)[0],)
        answers = call(arrays_of(tensors))
        assert least < decibels(answers, expected(release("Pictures"), tensors)) < most
    first = call(arrays_of((images(1, seed=1)[0],)))[0].copy()
    call(arrays_of((images(1, seed=2)[0],)))
    assert np.allclose(first, call(arrays_of((images(1, seed=1)[0],)))[0], atol=1e-5)
