"""What all engines promise."""

import ast
import inspect
import sys

import pytest

from netdyno import plugins
from netdyno.errors import NetdynoError
from netdyno.serving.engines import _base as engines
from netdyno.serving.engines._base import Wanted
from serving.specimens import manifest, written

ALL = sorted(engines.catalogue())
SCRIPTS = [name for name in ALL if engines.named(name).script is not None]
HEADINGS = ("Needs:", "Helps:", "Batching:", "Speaks:")


def test_there_are_engines_and_none_is_broken():
    assert {"own", "litserve", "ray-serve", "pytriton", "triton-repository", "ovms"} <= set(ALL)
    broken = [kind for kind in plugins.classes("serving.engines").values() if isinstance(kind, plugins.Broken)]
    assert broken == []


@pytest.mark.parametrize("name", ALL)
def test_it_explains_itself(name):
    page = inspect.getdoc(sys.modules[engines.catalogue()[name].__module__])
    assert all(heading in page for heading in HEADINGS)


@pytest.mark.parametrize("name", ALL)
def test_it_says_what_it_lacks_in_words_or_nothing(name):
    lacks = engines.named(name).unavailable()
    assert lacks is None or "pip install" in lacks


@pytest.mark.parametrize("name", SCRIPTS)
def test_its_script_is_python_that_names_the_package(tmp_path, name):
    package = written(tmp_path)
    engine = engines.named(name)
    files = engine.files(package, Wanted(port=8123, largest=4, delay_s=0.002))
    text = files[engine.script].decode()
    ast.parse(text)
    assert str(package.folder.resolve()) in text
    assert "8123" in text
    assert "{" not in text.splitlines()[0]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_folder_with_a_quote_in_its_name_stays_one_string(tmp_path, name):
    package = written(tmp_path / 'it\'s "here"')
    engine = engines.named(name)
    tree = ast.parse(engine.files(package, Wanted())[engine.script])
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert str(package.folder.resolve()) in strings


def test_nothing_that_is_there_is_overwritten(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(NetdynoError, match="there are files in it"):
        engines.write(engines.named("litserve"), written(tmp_path / "p"), tmp_path, Wanted())
    assert (tmp_path / "mine").read_text() == "precious"


def test_an_unknown_engine_is_refused_with_those_there_are():
    with pytest.raises(NetdynoError, match=r"there are .*litserve.*own"):
        engines.named("torchserve")


def test_an_engine_that_ends_at_once_says_why(tmp_path):
    class Broken(engines.catalogue()["litserve"]):
        def files(self, package, wanted):
            return {"serve.py": b"raise SystemExit('no such luck')"}

    with pytest.raises(NetdynoError) as error:
        engines.serve(Broken(), written(tmp_path), Wanted(), said=print)
    assert "no such luck" in str(error.value)
    assert "ended with status 1" in str(error.value)


def test_rows_of_any_length_are_no_layout_for_fixed_ones(tmp_path):
    from netdyno.records.deployment import Port, Signature

    signature = Signature(inputs=(Port(name="ids", dtype="int64", shape=(None,)),))
    for name in ("Triton", "PyTriton"):
        with pytest.raises(NetdynoError, match="rows of any length"):
            engines.single_input(manifest(signature=signature), name)
