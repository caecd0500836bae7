"""What is compiled when it is loaded, and what it takes."""

import numpy as np
import pytest

from netdyno.runtimes import _base as base
from netdyno.runtimes.aot_inductor import AotInductor
from netdyno.runtimes.compiled import Compiled
from runtimes.specimens import exportable, images, printed

KINDS = pytest.mark.parametrize("kind", [Compiled, AotInductor])


@KINDS
def test_without_a_compiler_it_says_what_to_install(kind, monkeypatch):
    monkeypatch.setattr(base, "which", lambda name: None)
    assert "C++ compiler" in kind().unavailable()
    assert "g++" in kind().unavailable()


@KINDS
def test_a_compiler_named_by_the_user_will_do(kind, monkeypatch):
    monkeypatch.setenv("CXX", "icpx")
    monkeypatch.setattr(base, "which", lambda name: f"/usr/bin/{name}" if name == "icpx" else None)
    monkeypatch.setattr(base, "no_headers", lambda: None)
    assert base.no_compiler() is None


def test_without_the_headers_of_python_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(base, "get_path", lambda name: str(tmp_path))
    assert "python3-dev" in base.no_headers()
    (tmp_path / "Python.h").touch()
    assert base.no_headers() is None


LOADING = """
import pathlib, sys
import numpy as np
import torch
from netdyno.records.deployment import Running
from netdyno.runtimes.compiled import Compiled
call = Compiled().load(pathlib.Path(sys.argv[1]), Running(batches=(1, 2)))
before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
for rows in (1, 2, 1):
    call((np.ones((rows, 3, 16, 16), np.float32),))
print(before, torch._dynamo.utils.counters["stats"]["unique_graphs"], torch._inductor.config.freezing)
"""


@pytest.mark.slow
def test_every_declared_number_of_rows_is_compiled_when_it_is_loaded(tmp_path):
    if Compiled().unavailable():
        pytest.skip(Compiled().unavailable())
    Compiled().export(exportable("Pictures"), tmp_path)
    assert printed(LOADING, str(tmp_path)).split()[-3:] == ["2", "2", "False"]


def test_an_artefact_keeps_two_rows_to_be_compiled_with(tmp_path):
    Compiled().export(exportable("Pictures"), tmp_path)
    with np.load(tmp_path / "rows.npz") as held:
        assert np.array_equal(held["input0"], images(8)[0][:2].numpy())
