import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from netdyno.errors import TargetError
from netdyno.targets.script import names_script, parse


@pytest.fixture
def project(tmp_path):
    (tmp_path / "train.py").write_text("import torch\nprint('hello')\n")
    (tmp_path / "work.py").write_text("from netdyno import Workload\nw = Workload(model=None, train=None)\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "pkg/fit.py").write_text("pass\n")
    (tmp_path / "pkg/deep").mkdir()
    (tmp_path / "pkg/deep/__init__.py").write_text("")
    (tmp_path / "pkg/deep/__main__.py").write_text("pass\n")
    return tmp_path


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_file_is_started_by_our_interpreter_with_its_own_words(project):
    script = parse("train.py", ("--epochs", "3"), cwd=project)

    assert script.argv == (sys.executable, "train.py", "--epochs", "3")
    assert (script.name, script.file, script.kind, script.cwd) == ("train", project / "train.py", "file", project)


def test_a_module_is_found_without_importing_its_package(project):
    script = parse(None, ("--epochs", "3"), module="pkg.fit", cwd=project)

    assert script.argv == (sys.executable, "-m", "pkg.fit", "--epochs", "3")
    assert (script.name, script.file, script.kind) == ("pkg.fit", project / "pkg/fit.py", "module")


def test_of_a_package_its_main_module_is_run(project):
    assert parse(None, module="pkg.deep", cwd=project).file == project / "pkg/deep/__main__.py"


def test_the_first_word_after_a_module_is_its_argument(project):
    assert parse("shakespeare", ("--fast",), module="pkg.fit", cwd=project).argv[2:] == (
        "pkg.fit",
        "shakespeare",
        "--fast",
    )


@pytest.mark.parametrize(
    ("words", "name", "file", "kind"),
    [
        (("python", "train.py", "--lr", "1"), "train", "train.py", "file"),
        (("python", "-u", "-W", "ignore", "train.py"), "train", "train.py", "file"),
        (("python", "-X", "dev", "-Wd", "train.py"), "train", "train.py", "file"),
        (("python", "-m", "pkg.fit", "--lr", "1"), "pkg.fit", "pkg/fit.py", "module"),
        (("python", "-I", "train.py"), "train", "train.py", "file"),
        (("python", "-um", "pkg.fit"), "pkg.fit", "pkg/fit.py", "module"),
        (("python", "-m", "torch.distributed.run", "--nproc_per_node=2", "train.py"), "train", "train.py", "torchrun"),
        (("torchrun", "--nproc_per_node", "2", "train.py", "--lr", "1"), "train", "train.py", "torchrun"),
        (("torchrun", "--nproc_per_node=2", "-m", "pkg.fit"), "pkg.fit", "pkg/fit.py", "torchrun"),
        (("train.py", "--lr", "1"), "train", "train.py", "file"),
    ],
)
def test_a_whole_command_is_understood(project, words, name, file, kind):
    script = parse(None, words, cwd=project)

    assert (script.name, script.file, script.kind) == (name, project / file, kind)
    assert os.path.isabs(script.argv[0])
    assert script.argv[-1] == words[-1]


def test_an_accelerate_launch_is_a_launcher(project):
    tool = program(project, "accelerate", f"#!{sys.executable}\n")

    script = parse(None, ("./accelerate", "launch", "--num_processes", "2", "train.py"), cwd=project)

    assert script.argv[:2] == (str(tool), "launch")
    assert (script.file, script.kind) == (project / "train.py", "torchrun")


def test_a_console_script_leads_to_the_function_it_calls(project, monkeypatch):
    tool = program(
        project,
        "fit-it",
        f"#!{sys.executable}\nimport sys\nfrom netdyno.cli._app import main\nif __name__ == '__main__':\n    sys.exit(main())\n",
    )
    monkeypatch.setenv("PATH", str(project), prepend=os.pathsep)

    script = parse(None, ("fit-it", "--lr", "1"), cwd=project)

    assert script.argv == (str(tool), "--lr", "1")
    assert (script.name, script.kind) == ("fit-it", "program")
    assert script.file is not None
    assert script.file.name == "_app.py"


def test_an_executable_script_without_extension_is_its_own_source(project):
    tool = program(project, "go", "#!/usr/bin/env python3\nimport torch\nprint(1)\n")
    assert parse(None, ("./go",), cwd=project).file == tool


def test_a_program_whose_interpreter_reads_no_environment_is_refused_before_it_runs(project):
    program(project, "shut", "#!/usr/bin/python3 -I\nimport sys\n")
    with pytest.raises(TargetError, match="cannot ride along") as error:
        parse(None, ("./shut",), cwd=project)
    assert "python -m" in error.value.hint


def test_an_interpreter_given_by_a_relative_path_is_found_from_anywhere(project):
    (project / "python3").symlink_to(sys.executable)
    script = parse(None, ("./python3", "train.py"), cwd=project)
    assert script.argv[0] == str(project / "python3")  # the link itself: a virtual environment is recognised by it


def test_what_parse_gives_can_be_started(project):
    (project / "show.py").write_text("import sys; print(sys.argv[1:])\n")
    script = parse("show.py", ("--epochs", "3"), cwd=project)
    out = subprocess.run(script.argv, cwd=script.cwd, capture_output=True, text=True, check=True).stdout
    assert out == "['--epochs', '3']\n"


@pytest.mark.parametrize(
    ("arguments", "says", "hint"),
    [
        ({"reference": "trian.py"}, "cannot find `trian.py`", "did you mean `train.py`?"),
        ({"reference": "fit.py"}, "cannot find `fit.py`", "did you mean `pkg/fit.py`?"),
        ({"reference": "pkg"}, "`pkg` is a folder", "give the script in it: `pkg/__init__.py`"),
        ({"reference": "run.sh"}, "`run.sh` is not a Python script", "give the .py file"),
        ({"reference": "look.ipynb"}, "`look.ipynb` is not a Python script", "nbconvert"),
        (
            {"reference": None, "module": "pkg.nothing"},
            "cannot find the module `pkg.nothing`",
            "the path of the script",
        ),
        ({"reference": None}, "there is no script", "doctor train.py"),
        ({"reference": None, "rest": ("no-such-program", "x")}, "cannot find the program", "give the script itself"),
        ({"reference": None, "rest": ("LR=1", "python", "train.py")}, "cannot start `LR=1`", "`LR=1 netdyno …`"),
        ({"reference": None, "rest": ("python", "-c", "pass")}, "names no script", "put it into a file"),
        ({"reference": None, "rest": ("python",)}, "names no script", "put it into a file"),
        ({"reference": None, "rest": ("torchrun", "--nproc_per_node=2")}, "is given no script", "torchrun train.py"),
        ({"reference": None, "rest": ("sh", "run.sh")}, "`sh` is not a Python program", "python train.py"),
    ],
)
def test_what_cannot_be_started_is_said_in_three_lines(project, arguments, says, hint):
    (project / "run.sh").write_text("python train.py\n")
    (project / "look.ipynb").write_text("{}")
    with pytest.raises(TargetError) as error:
        parse(**{"rest": (), "cwd": project, **arguments})
    assert says in error.value.what
    assert hint in error.value.hint


def test_a_script_is_told_from_a_declared_workload_without_running_either(project, monkeypatch):
    monkeypatch.chdir(project)
    assert names_script("train.py")
    assert not names_script("work.py")
    assert not names_script("work.py:w")
    assert not names_script("train.py:w")
    assert not names_script("missing.py")
    assert not names_script("garage:digits")
    assert not names_script("pkg")


@pytest.mark.parametrize(
    ("text", "is_script"),
    [
        ("import netdyno\n", False),
        ("import netdyno.targets as t\n", False),
        ("from mine import Workload\nw = Workload()\n", False),
        ("# Workload( in a comment, and netdyno\n", True),
        ("class Workload: pass\n", True),
        ("def broken(:\n", True),
        ("from netdyno import Workload\ndef broken(:\n", False),
    ],
)
def test_only_code_declares(tmp_path, text, is_script):
    (tmp_path / "some.py").write_text(text)
    assert names_script(str(tmp_path / "some.py")) is is_script
