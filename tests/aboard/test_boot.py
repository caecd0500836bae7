"""Going aboard: when, and that nobody notices."""

import importlib
import importlib.util
import sys

import pytest

from netdyno.aboard.boot import _After, after_import


@pytest.fixture
def late(tmp_path, monkeypatch):
    """A module that is not imported yet."""
    (tmp_path / "late_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield "late_module"
    sys.meta_path[:] = before
    sys.modules.pop("late_module", None)


def test_the_word_comes_when_the_modules_body_has_run(late):
    heard = []
    after_import(late, lambda module: heard.append(module.value))
    importlib.import_module(late)
    assert heard == [1]


def test_looking_whether_it_is_installed_does_not_disarm(late):
    heard = []
    after_import(late, lambda module: heard.append(module.value))
    assert importlib.util.find_spec(late) is not None
    assert importlib.util.find_spec(late) is not None
    importlib.import_module(late)
    assert heard == [1]


def test_a_module_that_fails_to_load_is_waited_for_again(late, tmp_path):
    heard = []
    after_import(late, lambda module: heard.append(module.value))
    (tmp_path / "late_module.py").write_text("raise ImportError('not yet')\n")
    with pytest.raises(ImportError):
        importlib.import_module(late)
    (tmp_path / "late_module.py").write_text("value = 22222\n")
    importlib.import_module(late)
    assert heard == [22222]


def test_afterwards_the_import_system_is_as_it_was(late):
    before = list(sys.meta_path)
    after_import(late, lambda _: None)
    module = importlib.import_module(late)
    assert sys.meta_path == before
    assert "exec_module" not in vars(module.__loader__)
    assert type(module.__loader__).__name__ == "SourceFileLoader"


def test_a_loader_without_room_is_wrapped_and_answers_as_itself():
    class Narrow:
        __slots__ = ("ran",)

        def exec_module(self, module):
            self.ran = module

    spec = importlib.machinery.ModuleSpec("narrow", Narrow())
    heard = []
    waiting = _After("narrow", heard.append)
    waiting._listen(spec)
    sys.meta_path.append(waiting)
    spec.loader.exec_module(sys)
    assert (heard, spec.loader.ran) == ([sys], sys)
