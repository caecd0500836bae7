"""A package proves itself, and one that was touched is refused."""

import numpy as np
import pytest

from netdyno.errors import NetdynoError
from netdyno.records.deployment import Manifest, Port, Running, Signature
from netdyno.records.trial import Change
from netdyno.shipping import package

INPUTS = (np.arange(12, dtype=np.float32).reshape(4, 3),)


@pytest.fixture
def made(tmp_path):
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    (artifact / "model.bin").write_bytes(b"weights")
    return package.write(
        tmp_path / "toy",
        manifest(),
        artifact=artifact,
        inputs=INPUTS,
        answers=(INPUTS[0] * 2,),
        texts={"README.md": "toy"},
    )


def manifest():
    port = Port(name="input", dtype="float32", shape=(3,))
    return Manifest(
        name="toy", version="1", made_by="test", made_at="2026-01-01", model_hash="0", runtime=Change(id="eager"),
        running=Running(batches=(1, 4)), signature=Signature(inputs=(port,)),
    )  # fmt: skip


def test_it_is_read_as_it_was_written(made):
    found = package.opened(made.folder)
    assert found.manifest == made.manifest
    assert {file.path for file in found.manifest.files} == {"artifact/model.bin", "example.npz", "README.md"}
    inputs, answers = found.example()
    assert np.array_equal(inputs[0] * 2, answers[0])


def change_a_byte(folder):
    (folder / "artifact" / "model.bin").write_bytes(b"Weights")


def take_one_away(folder):
    (folder / "artifact" / "model.bin").unlink()


def add_one(folder):
    (folder / "artifact" / "hook.py").write_text("print('hello')")


@pytest.mark.parametrize("touch", [change_a_byte, take_one_away, add_one])
def test_a_package_that_was_touched_is_refused(made, touch):
    touch(made.folder)
    with pytest.raises(package.PackageError, match="was changed after it was written"):
        package.opened(made.folder)


def test_a_link_is_refused(made):
    (made.folder / "artifact" / "other").symlink_to("/etc/hostname")
    with pytest.raises(package.PackageError, match="a link points"):
        package.opened(made.folder)


def test_a_folder_without_a_manifest_is_no_package(tmp_path):
    with pytest.raises(package.PackageError, match="is no package"):
        package.opened(tmp_path)


def test_a_newer_manifest_is_refused_with_a_hint(made):
    file = made.folder / "manifest.json"
    file.write_text(file.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    with pytest.raises(NetdynoError, match="upgrade netdyno"):
        package.opened(made.folder)


def test_a_folder_of_other_files_is_not_overwritten(made, tmp_path):
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("years of work")
    with pytest.raises(package.PackageError, match="no package"):
        package.write(other, manifest(), artifact=made.artifact, inputs=INPUTS, answers=INPUTS)
    assert (other / "chapter.txt").read_text() == "years of work"


def test_an_older_package_is_replaced_as_a_whole(made):
    again = package.write(made.folder, manifest(), artifact=made.artifact, inputs=INPUTS, answers=INPUTS)
    assert {file.path for file in package.opened(again.folder).manifest.files} == {"artifact/model.bin", "example.npz"}
    assert [path.name for path in made.folder.parent.iterdir() if path.name.startswith(".")] == []


def test_a_loaded_model_must_answer_its_example_as_when_it_was_built(made):
    assert made.proven(lambda arrays: (arrays[0] * 2,)) == 0.0
    with pytest.raises(package.PackageError, match="does not answer its own example"):
        made.proven(lambda arrays: (arrays[0] * 2.1,))


def test_answers_of_another_shape_are_infinitely_far():
    assert package.distance(np.zeros((2, 3), np.float32), np.zeros((2, 1), np.float32)) == float("inf")
    assert package.distance(np.array([np.nan]), np.array([1.0])) == float("inf")
