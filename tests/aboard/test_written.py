"""Scripts that write, with somebody aboard who listens: what is told, and what is turned aside."""

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from netdyno.aboard.config import VARIABLE, Config, in_words
from netdyno.scripts import scratch as room
from netdyno.scripts.scratch import Written, scratch
from netdyno.targets.script import parse

ABOARD = Path(room.__file__).parents[1] / "aboard"

# What the boot file does, without torch.
BOARDING = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location(
    "netdyno_aboard", {str(ABOARD / "__init__.py")!r}, submodule_search_locations=[{str(ABOARD)!r}]
)
sys.modules["netdyno_aboard"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from netdyno_aboard import config, written
import builtins
builtins.writing = written.install(config.from_environment())
"""

# Like torch.save, it opens its file in C, where Python hears nothing of it.
FAKE_TORCH = """
import subprocess
def save(obj, f, **kw):
    subprocess.run(["sh", "-c", 'printf "%s" "$1" > "$2"', "sh", obj, str(f)], check=True)
def load(f):
    return open(f).read()
"""


class Lab:
    """A project, a place for scratches, and results of the last launch."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "home" / "project"
        self.project.mkdir(parents=True)
        self.outside = folder / "outside"
        self.outside.mkdir()
        self.base = folder / "scratch"
        self.base.mkdir()
        self.results = folder / "results"
        self.results.mkdir()
        self.door = folder / "door"
        self.door.mkdir()
        (self.door / "sitecustomize.py").write_text(BOARDING)

    def launch(self, text: str, *, in_place: bool = False) -> str:
        (self.project / "train.py").write_text(textwrap.dedent(text))
        with scratch(parse("train.py", cwd=self.project), base=self.base, in_place=in_place) as place:
            config = Config(folder=str(self.results), scratch=str(place.folder))
            path = f"{self.door}{os.pathsep}{self.project}"
            environment = {**place.env, "PYTHONPATH": path, VARIABLE: in_words(config)}
            done = subprocess.run(
                place.argv, cwd=place.cwd, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            self.written = place.written(self.told)
            self.touched = place.touched()
        return done.stdout.strip()

    @property
    def told(self) -> list[str]:
        lines = [json.loads(line) for file in self.results.iterdir() for line in file.read_text().splitlines()]
        return [name for line in lines if line["is"] == "wrote" for name in line["files"]]


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "COPIED_EACH", 1000)
    monkeypatch.setattr(room, "SAMPLES", 10)
    monkeypatch.setattr(room._Purse, "_cloned", lambda self, source, target: False)
    return Lab(tmp_path)


def test_a_file_written_outside_is_told(lab):
    lab.launch(f"open({str(lab.outside / 'a.txt')!r}, 'w').write('123')")
    assert lab.told == [str(lab.outside / "a.txt")]
    assert lab.written == (Written(str(lab.outside / "a.txt"), 3, "outside"),)


def test_renamed_and_low_level_files_are_told_and_what_was_only_read_is_not(lab):
    (lab.outside / "read.txt").write_text("x")
    lab.launch(
        f"""
        import os
        os.chdir({str(lab.outside)!r})
        open("read.txt").read()
        os.close(os.open("low.txt", os.O_WRONLY | os.O_CREAT))
        open("new.tmp", "w").write("1")
        os.replace("new.tmp", "new.txt")
        os.makedirs("folder", exist_ok=True)
        open(os.devnull, "w").write("x")
        """
    )
    assert {Path(name).name for name in lab.told} == {"low.txt", "new.tmp", "new.txt"}
    assert [(Path(file.path).name, file.bytes) for file in lab.written] == [("low.txt", 0), ("new.txt", 1)]


def test_what_stays_in_the_scratch_or_is_ours_is_not_told_aboard(lab):
    lab.launch(
        f"""
        open("a.txt", "w"), open({str(lab.results / "x.txt")!r}, "w")
        """
    )
    (lab.results / "x.txt").unlink()
    assert lab.told == []
    assert lab.written == (Written("a.txt", 0, "scratch"),)


@pytest.mark.parametrize(
    "change",
    [
        "open('large.bin', 'a').write('more')",
        "open('large.bin', 'w').write('less')",
        "open('large.bin', 'r+').write('other')",
        "os.truncate('large.bin', 3)",
        "os.chmod('large.bin', 0o600)",
        "os.remove('large.bin')",
        "os.replace('small.txt', 'large.bin')",
        "pathlib.Path('large.bin').write_text('other')",
        "os.write(os.open('large.bin', os.O_RDWR), b'other')",
    ],
)
def test_a_linked_file_becomes_a_copy_before_it_is_changed(lab, change):
    large, small = lab.project / "large.bin", lab.project / "small.txt"
    large.write_text("x" * 5000)
    small.write_text("small")
    before = large.stat()

    lab.launch(f"import os, pathlib\n{change}\n")

    assert large.read_text() == "x" * 5000
    assert (large.stat().st_mtime_ns, large.stat().st_mode) == (before.st_mtime_ns, before.st_mode)
    assert small.read_text() == "small"
    assert lab.touched == ()


def test_the_copy_of_a_linked_file_goes_on_where_the_original_ends(lab):
    (lab.project / "large.bin").write_text("x" * 5000)
    out = lab.launch("open('large.bin', 'a').write('more'); print(len(open('large.bin').read()))")
    assert out == "5004"
    assert lab.written == (Written("large.bin", 5004, "scratch"),)


def test_a_linked_folder_is_written_to_without_the_original_knowing(lab):
    images = lab.project / "images"
    images.mkdir()
    for index in range(11):
        (images / f"{index}.png").write_text("x")
    out = lab.launch(
        """
        import os, shutil
        open("images/3.png", "w").write("other")
        open("images/new.png", "w").write("new")
        os.remove("images/4.png")
        print(len(os.listdir("images")), open("images/5.png").read())
        shutil.rmtree("images")
        """
    )
    assert out == "11 x"
    assert sorted(path.name for path in images.iterdir()) == sorted(f"{index}.png" for index in range(11))
    assert {path.read_text() for path in images.iterdir()} == {"x"}
    assert lab.touched == ()


def test_a_folder_above_is_protected_in_the_same_way(lab):
    shared = lab.project.parent / "data"
    shared.mkdir()
    (shared / "cache.txt").write_text("mine")
    lab.launch("open('../data/cache.txt', 'w').write('other'); open('../data/more.txt', 'w').write('2')")
    assert [path.name for path in shared.iterdir()] == ["cache.txt"]
    assert (shared / "cache.txt").read_text() == "mine"
    assert lab.written == (Written("../data/cache.txt", 5, "scratch"), Written("../data/more.txt", 1, "scratch"))


def test_a_file_too_large_to_copy_is_written_to_and_that_is_said_aloud(lab):
    large = lab.project / "large.bin"
    large.write_text("x" * 5000)
    lab.launch(
        """
        import netdyno_aboard.written as w
        w.LARGEST_COPY = 100
        open("large.bin", "a").write("more")
        """
    )
    assert lab.touched == (str(large),)
    assert large.read_text() == "x" * 5000 + "more"


def test_a_database_is_copied_before_it_is_opened(lab):
    large = lab.project / "runs.db"
    large.write_bytes(b"")
    import sqlite3

    with sqlite3.connect(large) as base:
        base.execute("create table a (x)")
        base.executemany("insert into a values (?)", [("x" * 500,)] * 20)
    base.close()
    out = lab.launch(
        """
        import sqlite3
        base = sqlite3.connect("runs.db")
        base.execute("insert into a values ('new')")
        base.commit()
        print(base.execute("select count(*) from a").fetchone()[0])
        """
    )
    assert out == "21"
    assert lab.touched == ()


def test_a_save_outside_goes_to_the_scratch_and_is_loaded_from_there(lab):
    (lab.project / "torch.py").write_text(FAKE_TORCH)
    (lab.outside / "last.pt").write_text("mine")
    target = str(lab.outside / "last.pt")
    out = lab.launch(f"import torch; open('a', 'w'); torch.save('theirs', {target!r}); print(torch.load({target!r}))")
    assert out == "theirs"
    assert (lab.outside / "last.pt").read_text() == "mine"
    assert Written(target, 6, "scratch") in lab.written


def test_a_save_into_the_original_by_its_absolute_path_goes_to_the_copy(lab):
    (lab.project / "torch.py").write_text(FAKE_TORCH)
    target = str(lab.project / "last.pt")
    out = lab.launch(f"import torch; open('a', 'w'); torch.save('theirs', f={target!r}); print(open('last.pt').read())")
    assert out == "theirs"
    assert not Path(target).exists()
    assert Written("last.pt", 6, "scratch") in lab.written


def test_a_save_over_a_linked_snapshot_leaves_the_original(lab):
    (lab.project / "torch.py").write_text(FAKE_TORCH)
    large = lab.project / "last.pt"
    large.write_text("x" * 5000)
    lab.launch("import torch; open('a', 'w'); torch.save('theirs', 'last.pt')")
    assert large.read_text() == "x" * 5000
    assert lab.touched == ()


def test_in_place_saves_go_where_they_want_and_are_told(lab):
    (lab.project / "torch.py").write_text(FAKE_TORCH)
    target = lab.outside / "last.pt"
    lab.launch(f"import torch; open('a', 'w'); torch.save('theirs', {str(target)!r})", in_place=True)
    assert target.read_text() == "theirs"
    assert str(target) in lab.told


def test_after_close_nothing_is_told_and_every_function_is_back(lab):
    (lab.project / "torch.py").write_text(FAKE_TORCH)
    out = lab.launch(
        f"""
        import torch
        before = torch.save
        open("a", "w")
        inside = torch.save
        writing.close()
        open({str(lab.outside / "b")!r}, "w")
        print(inside is not before, torch.save is before)
        """
    )
    assert out == "True True"
    assert lab.told == []


def test_a_failed_opening_fails_as_it_would_alone(lab):
    out = lab.launch(
        """
        for path in ("no/such/folder/x", "/proc/x", ""):
            try:
                open(path, "w")
            except OSError as error:
                print(type(error).__name__, end=" ")
        """
    )
    assert out == "FileNotFoundError FileNotFoundError FileNotFoundError"
    assert lab.written == ()


def test_no_more_than_so_many_names_are_kept(lab):
    lab.launch(
        f"""
        for index in range(300):
            open({str(lab.outside)!r} + f"/{{index}}", "w")
        print(len(writing.names))
        """
    )
    assert len(lab.told) == 200


def test_an_event_that_is_none_of_ours_costs_little_more_than_any_audit_hook(lab):
    # Ratios in one process: no clock of this machine is trusted with an absolute time.
    out = lab.launch(
        """
        from timeit import repeat
        def nothing(event, of): return None
        ours = writing.hook()
        bare = min(repeat(lambda: nothing("builtins.id", ()), number=2000, repeat=150))
        heard = min(repeat(lambda: ours("builtins.id", ()), number=2000, repeat=150))
        print(heard / bare)
        """
    )
    assert float(out) < 3


def test_torch_itself_saves_beside_its_snapshot_and_leaves_the_original(lab):
    pytest.importorskip("torch")
    large = lab.project / "last.pt"
    large.write_bytes(b"x" * 5000)
    target = str(lab.outside / "best.pt")
    out = lab.launch(
        f"""
        import torch
        writing._look_for_late_comers()
        torch.save({{"a": torch.ones(3)}}, "last.pt")
        torch.save({{"a": torch.ones(3)}}, {target!r})
        print(float(torch.load("last.pt")["a"].sum()), float(torch.load({target!r})["a"].sum()))
        """
    )
    assert out == "3.0 3.0"
    assert large.read_bytes() == b"x" * 5000
    assert not Path(target).exists()
