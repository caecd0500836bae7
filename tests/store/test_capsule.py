"""The `debug/` folder of a run: complete, and able to measure the claim again."""

import json
import os
import stat
import subprocess
import sys

import msgspec
import pytest

from netdyno.records import codec
from netdyno.store.capsule import config, requirements, script, write_capsule
from reports.specimens import golden


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "work.py").write_text("Digits = ...\n")
    return folder


def of_work(record, source="work.py:Digits"):
    return msgspec.structs.replace(record, target=msgspec.structs.replace(record.target, source=source))


def with_environment(record, **fields):
    return msgspec.structs.replace(record, environment=msgspec.structs.replace(record.environment, **fields))


def test_the_record_in_it_is_the_record(tmp_path):
    folder = write_capsule(golden(), tmp_path / "debug")
    assert codec.decode((folder / "record.json").read_bytes()) == golden()


def test_its_config_leaves_no_default_implicit():
    told = config(golden())
    assert set(told["plan"]) == set(golden().plan.__struct_fields__)
    assert set(told["target"]) == set(golden().target.__struct_fields__)


def test_every_file_of_the_ledger_is_there(tmp_path):
    folder = write_capsule(golden(), tmp_path / "debug")
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "config.json",
        "requirements.txt",
        "seeds.json",
        "profiles",
        "recipe.json",
        "reproduce.sh",
        "build.txt",
    }
    kinds = {type(item).__name__ for item in golden().evidence}
    assert {path.stem for path in (folder / "profiles").glob("*.json")} == kinds


def test_all_its_json_can_be_read(tmp_path):
    folder = write_capsule(golden(), tmp_path / "debug")
    for path in folder.rglob("*.json"):
        json.loads(path.read_bytes())


def test_requirements_are_exact_and_installable():
    record = with_environment(
        golden(), packages={"torch": "2.13.0+cpu", "numpy": "2.4.6", "netdyno": "0.1.0", "pip": "23"}
    )
    assert requirements(record) == ["numpy==2.4.6", "torch==2.13.0  # was 2.13.0+cpu"]


def test_the_users_source_comes_along(tmp_path, project):
    folder = write_capsule(of_work(golden()), tmp_path / "debug", project=project)
    assert (folder / "source" / "work.py").read_text() == "Digits = ...\n"


def test_a_source_outside_the_project_does_not_leave_the_folder(tmp_path, project):
    (tmp_path / "work.py").write_text("outside\n")
    folder = write_capsule(of_work(golden(), "../work.py:Digits"), tmp_path / "debug", project=project)
    assert (folder / "source" / "work.py").read_text() == "outside\n"


def test_a_built_in_workload_needs_no_source(tmp_path):
    folder = write_capsule(of_work(golden(), "garage:digits"), tmp_path / "debug")
    assert list((folder / "source").iterdir()) == []


def test_a_second_capsule_replaces_the_first(tmp_path):
    write_capsule(golden(), tmp_path / "debug")
    later = msgspec.structs.replace(golden(), command="netdyno tune again")
    folder = write_capsule(later, tmp_path / "debug")
    assert json.loads((folder / "config.json").read_bytes())["command"] == "netdyno tune again"


def test_switches_of_the_environment_come_back_quoted():
    record = with_environment(golden(), flags={"OMP_WAIT_POLICY": "passive; rm -rf $HOME", "mkldnn": "True"})
    text = script(record)
    assert "export OMP_WAIT_POLICY='passive; rm -rf $HOME'\n" in text
    assert "mkldnn" not in text


def fake_python(tmp_path, status):
    """Stands in for a Python that has netdyno: writes down where and how it was called."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\necho "$PWD|$*|$OMP_WAIT_POLICY" > "{tmp_path}/called"\nexit {status}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize("status", [0, 1])
def test_its_script_replays_the_record_beside_the_source_and_passes_the_answer_on(tmp_path, project, status):
    record = with_environment(of_work(golden()), flags={"OMP_WAIT_POLICY": "passive"})
    folder = write_capsule(record, tmp_path / "my debug", project=project)
    done = subprocess.run(
        [folder / "reproduce.sh", "--json"],
        env={**os.environ, "PYTHON": str(fake_python(tmp_path, status))},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == status
    where, how, policy = (tmp_path / "called").read_text().strip().split("|")
    assert where == str(folder / "source")
    assert how == f"-m netdyno replay {folder}/record.json --json"
    assert policy == "passive"


def test_its_script_is_plain_sh(tmp_path):
    folder = write_capsule(golden(), tmp_path / "debug")
    subprocess.run(["sh", "-n", str(folder / "reproduce.sh")], check=True)


def test_capsules_are_written_without_torch():
    code = "import sys; import netdyno.store.capsule; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
