"""Little scripts that write, resume, append and import, each started as a user would."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from netdyno.errors import TargetError
from netdyno.scripts import scratch as room
from netdyno.scripts.launch import ride
from netdyno.scripts.scratch import PREFIX, Written, scratch
from netdyno.targets.script import Script, parse


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "far" / "home" / "project"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def base(tmp_path):
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


@pytest.fixture
def small(monkeypatch):
    """Files above a kilobyte are linked, as are folders of more than ten samples; nothing is cloned."""
    monkeypatch.setattr(room, "COPIED_EACH", 1000)
    monkeypatch.setattr(room, "SAMPLES", 10)
    monkeypatch.setattr(room._Purse, "_cloned", lambda self, source, target: False)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def run(place) -> str:
    done = subprocess.run(place.argv, cwd=place.cwd, env=place.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def launched(script: Script, base: Path, **settings) -> str:
    with scratch(script, base=base, **settings) as place:
        return run(place)


def test_two_launches_of_a_script_that_resumes_both_start_fresh(project, base):
    write(
        project,
        "train.py",
        """
        import os
        print("resumed" if os.path.exists("last.pt") else "fresh")
        open("last.pt", "w").write("state")
        """,
    )
    script = parse("train.py", cwd=project)

    assert [launched(script, base), launched(script, base)] == ["fresh", "fresh"]
    assert sorted(path.name for path in project.iterdir()) == ["train.py"]
    assert list(base.iterdir()) == []


def test_a_snapshot_that_was_there_is_there_in_each_launch_and_stays_as_it_was(project, base):
    write(project, "last.pt", "mine")
    write(project, "train.py", "print(open('last.pt').read()); open('last.pt', 'w').write('theirs')")
    script = parse("train.py", cwd=project)

    assert [launched(script, base), launched(script, base)] == ["mine", "mine"]
    assert (project / "last.pt").read_text() == "mine"


def test_siblings_are_imported_and_data_found_beside_and_below(project, base):
    write(project, "data/words.txt", "hello")
    write(project, "model/__init__.py", "from .net import NAME")
    write(project, "model/net.py", "NAME = 'net'")
    write(project, "settings.py", "LR = 3")
    write(
        project,
        "train.py",
        """
        from pathlib import Path
        import settings
        from model import NAME
        print(settings.LR, NAME, open("data/words.txt").read(), (Path(__file__).parent / "data" / "words.txt").read_text())
        """,
    )
    assert launched(parse("train.py", cwd=project), base) == "3 net hello hello"


def test_a_script_one_folder_down_still_finds_what_lies_beside_it(project, base):
    write(project, "code/near.py", "X = 1")
    write(project, "code/train.py", "import near, os; print(near.X, os.path.basename(os.getcwd()), __file__)")
    out = launched(parse("code/train.py", cwd=project), base)
    assert out.startswith("1 project ")
    assert str(base) in out


def test_a_module_of_the_working_directory_is_run_from_its_copy(project, base):
    write(project, "pkg/__init__.py", "")
    write(project, "pkg/fit.py", "import sys; print(__file__, sys.argv[1:])")
    script = parse(None, ("python", "-m", "pkg.fit", "--lr", "1"), cwd=project)
    with scratch(script, base=base) as place:
        out = run(place)
        assert out == f"{place.cwd / 'pkg/fit.py'} ['--lr', '1']"
        assert place.original(out.split()[0]) == project / "pkg/fit.py"


def test_data_above_the_working_directory_is_found_and_what_is_made_there_is_not_kept(project, base):
    write(project.parent, "data/words.txt", "hello")
    write(project, "train.py", "print(open('../data/words.txt').read()); open('../new.txt', 'w').write('x')")
    with scratch(parse("train.py", cwd=project), base=base) as place:
        assert run(place) == "hello"
        assert place.written() == (Written("../new.txt", 1, "scratch"),)
    assert not (project.parent / "new.txt").exists()


def test_a_script_outside_its_working_directory_runs_where_it_is(project, base):
    write(project.parent, "tools/near.py", "X = 1")
    outside = write(project.parent, "tools/train.py", "import near; print(near.X, __file__); open('a.txt', 'w')")
    script = parse("../tools/train.py", cwd=project)
    with scratch(script, base=base) as place:
        assert place.argv[1] == str(outside)
        assert run(place) == f"1 {outside}"
        assert [written.path for written in place.written()] == ["a.txt"]


def test_absolute_paths_into_the_working_directory_point_into_the_copy(project, base):
    write(project, "conf/a.yaml", "a")
    write(project, "train.py", "import sys; print(sys.argv[1:])")
    words = ("--config", f"{project}/conf/a.yaml", f"--out-dir={project}/out", "--data", "/usr/share")
    with scratch(parse("train.py", words, cwd=project), base=base) as place:
        assert place.argv[2:] == (
            "--config",
            f"{place.cwd}/conf/a.yaml",
            f"--out-dir={place.cwd}/out",
            "--data",
            "/usr/share",
        )


def test_what_was_written_is_listed_with_its_size(project, base):
    write(project, "log.txt", "one\n")
    write(project, "same.txt", "same")
    write(
        project,
        "train.py",
        """
        import os
        os.makedirs("runs/1")
        open("runs/1/events", "w").write("12345")
        open("log.txt", "a").write("two\\n")
        open("same.txt").read()
        """,
    )
    with scratch(parse("train.py", cwd=project), base=base) as place:
        run(place)
        assert place.written() == (Written("log.txt", 8, "scratch"), Written("runs/1/events", 5, "scratch"))
        assert place.touched() == ()
    assert (project / "log.txt").read_text() == "one\n"


def test_files_outside_that_were_reported_are_listed_if_they_were_really_written(project, base, tmp_path):
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("old")
    time.sleep(0.05)  # the kernel's clock for files ticks in steps of up to 10 ms
    write(project, "train.py", f"open({str(new)!r}, 'w').write('12'); open('inside.txt', 'w')")
    with scratch(parse("train.py", cwd=project), base=base) as place:
        run(place)
        reported = [str(old), str(new), str(place.cwd / "inside.txt"), "/not/there"]
        assert place.written(reported) == (Written("inside.txt", 0, "scratch"), Written(str(new), 2, "outside"))


def test_large_files_and_crowded_folders_are_linked_and_small_ones_copied(project, base, small):
    write(project, "large.bin", "x" * 5000)
    write(project, "train.py", "import os; print(len(open('large.bin').read()), len(os.listdir('images')))")
    for index in range(11):
        write(project, f"images/{index}.png", "x")
    with scratch(parse("train.py", cwd=project), base=base) as place:
        assert run(place) == "5000 11"
        assert (place.cwd / "large.bin").is_symlink()
        assert (place.cwd / "images").is_symlink()
        assert not (place.cwd / "train.py").is_symlink()


def test_a_tree_of_samples_is_linked_at_its_root_so_that_a_walk_finds_them_all(project, base, small):
    for index in range(12):
        write(project, f"data/class{index % 3}/{index}.png", "x")
    write(
        project,
        "train.py",
        """
        import os
        from pathlib import Path
        print(len(list(Path("data").rglob("*.png"))), sum(len(files) for _, _, files in os.walk("data")))
        """,
    )
    with scratch(parse("train.py", cwd=project), base=base) as place:
        assert run(place) == "12 12"
        assert (place.cwd / "data").is_symlink()


def test_a_tree_of_source_is_copied_however_many_files_it_has(project, base, small):
    for index in range(20):
        write(project, f"pkg/part{index % 2}/m{index}.py", "")
    write(project, "env/pyvenv.cfg", "")
    write(project, "env/lib/m.py", "")
    write(project, "train.py", "")
    with scratch(parse("train.py", cwd=project), base=base) as place:
        assert not (place.cwd / "pkg/part1/m1.py").resolve().is_relative_to(project)
        assert (place.cwd / "env").is_symlink()


def test_of_a_whole_home_only_what_lies_directly_in_it_is_copied(project, base, monkeypatch):
    write(project, "train.py", "import pkg.net; print(pkg.net.X)")
    write(project, "pkg/net.py", "X = 1")
    monkeypatch.setenv("HOME", str(project))
    with scratch(parse("train.py", cwd=project), base=base) as place:
        assert run(place) == "1"
        assert (place.cwd / "pkg").is_symlink()
        assert not (place.cwd / "train.py").is_symlink()
        write(project, "pkg/other.py", "")
        (project / "pkg/net.py").write_text("X = 20")
        assert place.touched() == ()  # others write there too


def test_a_linked_original_that_another_program_changed_is_said_aloud(project, base, small):
    write(project, "large.bin", "x" * 5000)
    for index in range(11):
        write(project, f"images/{index}.png", "x")
    write(
        project,
        "train.py",
        "import subprocess; subprocess.run('echo more | tee -a large.bin images/3.png', shell=True, stdout=-3)",
    )
    with scratch(parse("train.py", cwd=project), base=base) as place:
        run(place)
        assert place.touched() == (str(project / "images/3.png"), str(project / "large.bin"))


def test_where_the_budget_is_spent_the_small_files_were_copied_first(project, base, monkeypatch):
    monkeypatch.setattr(room, "COPIED_IN_ALL", 1000)
    monkeypatch.setattr(room._Purse, "_cloned", lambda self, source, target: False)
    for name, size in {"a.bin": 800, "b.bin": 700, "c.py": 10}.items():
        write(project, name, "x" * size)
    with scratch(parse("c.py", cwd=project), base=base) as place:
        linked = {path.name for path in place.cwd.iterdir() if path.is_symlink()}
        assert linked == {"a.bin"}


def test_caches_stay_behind_and_environments_are_linked(project, base):
    write(project, "train.py", "")
    for name in ("__pycache__/a.pyc", ".netdyno/records/x", ".git/HEAD", ".venv/bin/x", f"{PREFIX}1/owner"):
        write(project, name, "x")
    with scratch(parse("train.py", cwd=project), base=base) as place:
        assert sorted(path.name for path in place.cwd.iterdir()) == [".git", ".venv", "train.py"]
        assert (place.cwd / ".git").is_symlink()


def test_links_of_the_author_keep_their_meaning(project, base):
    write(project, "real/a.txt", "inside")
    write(project.parent, "shared/b.txt", "above")
    os.symlink("real/a.txt", project / "relative")
    os.symlink(project / "real", project / "absolute")
    os.symlink("../shared/b.txt", project / "above")
    write(project, "train.py", "print(open('relative').read(), open('absolute/a.txt').read(), open('above').read())")
    with scratch(parse("train.py", cwd=project), base=base) as place:
        assert run(place) == "inside inside above"
        assert os.path.realpath(place.cwd / "absolute") == str(place.cwd / "real")


def test_dates_and_rights_are_those_of_the_original(project, base):
    path = write(project, "prepare.sh", "#!/bin/sh\n")
    path.chmod(0o755)
    os.utime(path, (1e9, 1e9))
    with scratch(parse(str(write(project, "train.py", "")), cwd=project), base=base) as place:
        status = (place.cwd / "prepare.sh").stat()
        assert status.st_mode & 0o777 == 0o755
        assert status.st_mtime == 1e9


def test_a_file_nobody_may_read_and_a_pipe_are_no_obstacle(project, base):
    write(project, "train.py", "print(1)")
    write(project, "secret", "x").chmod(0)
    os.mkfifo(project / "pipe")
    assert launched(parse("train.py", cwd=project), base) == "1"


@pytest.mark.parametrize(
    "words",
    [
        ("--output_dir", "{out}"),
        ("--output-dir={out}/deep/er",),
        ("--save", "{out}"),
        ("-o", "{out}"),
        ("hydra.run.dir={out}",),
        ("--trainer.default_root_dir", "{out}"),
        ("--logdir", "{out}"),
        ("--checkpoint-dir", "{out}"),
    ],
)
def test_an_output_place_outside_is_asked_about(project, base, tmp_path, words):
    write(project, "train.py", "")
    (tmp_path / "out").mkdir()
    script = parse("train.py", [word.format(out=tmp_path / "out") for word in words], cwd=project)
    with pytest.raises(TargetError, match="outside the working directory") as error:
        launched(script, base)
    assert "--in-place" in error.value.hint
    assert launched(script, base, in_place=True) == ""


@pytest.mark.parametrize(
    "words",
    [
        ("--output_dir", "out"),
        ("--output_dir", "{project}/out"),
        ("--data_dir", "{out}"),
        ("--checkpoint", "{out}/pretrained.pt"),
        ("--resume", "{out}"),
        ("--save", "/dev/null"),
        ("--log_every", "10"),
        ("--save",),
    ],
)
def test_a_place_that_is_read_or_lies_inside_is_not_asked_about(project, base, tmp_path, words):
    write(project, "train.py", "")
    (tmp_path / "out").mkdir()
    words = [word.format(out=tmp_path / "out", project=project) for word in words]
    assert launched(parse("train.py", words, cwd=project), base) == ""


def test_in_place_the_original_is_written_to_and_listed(project, base):
    write(project, "train.py", "open('last.pt', 'w').write('123')")
    with scratch(parse("train.py", cwd=project), base=base, in_place=True) as place:
        assert place.cwd == project
        run(place)
        assert place.written() == (Written("last.pt", 3, "outside"),)
    assert (project / "last.pt").exists()
    assert list(base.iterdir()) == []


def test_trackers_stay_offline_whatever_the_user_set(project, base):
    write(project, "train.py", "")
    given = {"WANDB_MODE": "online", "SWANLAB_MODE": "disabled", "MLFLOW_TRACKING_URI": "http://tracker", "MINE": "1"}
    with scratch(parse("train.py", cwd=project), base=base, environment=given) as place:
        assert place.env["WANDB_MODE"] == "offline"
        assert place.env["SWANLAB_MODE"] == "disabled"
        assert place.env["MLFLOW_TRACKING_URI"] == f"file:{place.folder}/trackers/mlruns"
        assert place.env["HF_HUB_OFFLINE"] == "1"
        assert place.env["MINE"] == "1"
    with scratch(parse("train.py", cwd=project), base=base, environment={}, online=True) as place:
        assert "HF_HUB_OFFLINE" not in place.env
        assert place.env["WANDB_MODE"] == "offline"


def test_the_python_path_into_the_working_directory_points_into_the_copy(project, base):
    write(project, "src/mine.py", "X = __file__")
    write(project, "train.py", "import mine; print(mine.X)")
    given = {**os.environ, "PYTHONPATH": f"{project}/src"}
    with scratch(parse("train.py", cwd=project), base=base, environment=given) as place:
        assert run(place) == str(place.cwd / "src/mine.py")


def test_a_traceback_names_the_authors_own_file(project, base):
    write(project, "train.py", "raise ValueError('no')")
    with scratch(parse("train.py", cwd=project), base=base) as place:
        done = subprocess.run(place.argv, cwd=place.cwd, env=place.env, capture_output=True, text=True, check=False)
        said = place.told(done.stderr)
        assert f'File "{project}/train.py", line 1' in said
        assert str(base) not in said


def test_paths_in_what_was_told_of_the_script_are_the_authors_own_in_any_alphabet(tmp_path, base):
    folder = tmp_path / "größe"
    folder.mkdir()
    write(folder, "train.py", "")
    with scratch(parse("train.py", cwd=folder), base=base) as place:
        message = json.dumps({"file": str(place.cwd / "train.py"), "other": "/usr/lib/x.py"})
        assert json.loads(place.told(message)) == {"file": str(folder / "train.py"), "other": "/usr/lib/x.py"}


def test_a_ride_of_a_script_that_resumes_starts_fresh_and_names_the_authors_own_lines(project):
    write(
        project,
        "train.py",
        """
        import os, sys, torch
        assert not os.path.exists("last.pt"), "resumed"
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(1000):
            optimizer.zero_grad()
            model(torch.randn(4, 2)).square().mean().backward()
            optimizer.step()
            torch.save(model.state_dict(), "last.pt")
        """,
    )
    script = parse("train.py", cwd=project)
    for _ in range(2):
        ridden = ride(script, updates=6)
        assert ridden.wrote == ("last.pt",)
        assert ridden.touched == ()
        assert ridden.stream.training.hello.cwd == str(project)
    assert [path.name for path in project.iterdir()] == ["train.py"]


def test_the_scratch_goes_also_when_the_launch_raised_or_wrote_behind_a_closed_door(project, base):
    write(project, "train.py", "import os; os.makedirs('shut/in'); open('shut/in/x', 'w'); os.chmod('shut', 0o500)")

    def fails() -> None:
        with scratch(parse("train.py", cwd=project), base=base) as place:
            run(place)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert list(base.iterdir()) == []


def test_what_a_killed_run_left_behind_is_swept_by_the_next_and_living_ones_stay(project, base):
    write(project, "train.py", "")
    code = f"""
import sys, time
from pathlib import Path
from netdyno.scripts.scratch import scratch, telling
from netdyno.targets.script import parse
with scratch(parse("train.py", cwd={str(project)!r}), base=Path({str(base)!r})), telling("netdyno-ride-"):
    print("here", flush=True)
    time.sleep(60)
"""
    environment = {**os.environ, "TMPDIR": str(base)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as killed:
        assert killed.stdout.readline() == "here\n"
        left = list(base.iterdir())
        assert len(left) == 2
        with scratch(parse("train.py", cwd=project), base=base):
            assert all(folder.exists() for folder in left)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    with scratch(parse("train.py", cwd=project), base=base):
        assert not any(folder.exists() for folder in left)


def test_no_room_for_a_copy_is_said_in_three_lines(project, tmp_path):
    write(project, "train.py", "")
    with pytest.raises(TargetError, match="cannot make a scratch copy"):
        launched(parse("train.py", cwd=project), tmp_path / "not-there")
