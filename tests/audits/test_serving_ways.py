"""`netdyno data --serving`: ways by name, and raw records of each kind of data."""

import json
import sys
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from netdyno.audits import _serving
from netdyno.audits._specimens import specimen
from netdyno.audits._views import opened
from netdyno.cli._app import main
from netdyno.errors import NetdynoError

WAYS = """
import neighbour
import numpy as np
from PIL import Image

def plain(path):
    return np.asarray(Image.open(path).convert("RGB"), dtype=np.float32).transpose(2, 0, 1) / 255

def reversed_channels(path):
    return plain(path)[::-1]

def same(array):
    return array

def divided(array):
    return array / 255

def numbers(row):
    return [float(row["a"]), float(row["b"])]

def swapped(row):
    return [float(row["b"]), float(row["a"])]
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ways.py").write_text(WAYS)
    (tmp_path / "neighbour.py").write_text("")
    view = specimen("images", sizes=(60, 40))
    for name, part in view.parts.items():
        for at, (image, kind) in enumerate(zip(part.x, part.y, strict=True)):
            folder = tmp_path / "photos" / name / f"kind{kind}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.rint(255 * image).astype(np.uint8).transpose(1, 2, 0)).save(folder / f"{at}.png")
    val = view.parts["val"]
    np.savez("a.npz", x_train=view.train.x, y_train=view.train.y, x_val=val.x, y_val=val.y)
    draw = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{int(a > 0)}" for a, b in draw.normal(size=(80, 2))]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,label", *rows]))
    return tmp_path


def found(capsys, *words):
    assert main(["data", *words, "--json", "--progress", "none"]) == 0
    told = json.loads(capsys.readouterr().out)
    return [each for each in told["findings"] if each["id"] == "serving-preprocess"]


def test_reversed_channels_in_use_are_found_on_the_files_of_a_folder(here, capsys):
    (one,) = found(capsys, "photos", "--serving", "ways.py:reversed_channels", "--training", "ways.py:plain")
    assert "channels are reversed" in one["says"]
    assert not found(capsys, "photos", "--serving", "ways.py:plain", "--training", "ways.py:plain")


def test_a_range_in_use_is_found_on_arrays(here, capsys):
    (one,) = found(capsys, "a.npz", "--serving", "ways.py:divided")
    assert "the range is another" in one["says"]
    assert not found(capsys, "a.npz", "--serving", "ways.py:same")


def test_columns_in_another_order_are_found_on_the_rows_of_a_table(here, capsys):
    table = ("t.csv", "--target-column", "label", "--training", "ways.py:numbers")
    assert found(capsys, *table, "--serving", "ways.py:swapped")
    assert not found(capsys, *table, "--serving", "ways.py:numbers")


def test_raw_records_are_those_of_the_rows_that_were_looked_at(here):
    view = opened("t.csv", sample=30, seed=3)
    notes = _serving.beside(view, {"training": len, "serving": len})
    assert [[float(row["a"]), float(row["b"])] for row in notes["raw"]] == view.train.rows[:30].tolist()


@pytest.mark.parametrize(
    "words",
    [
        ("photos", "--serving", "ways.py:plain"),
        ("t.csv", "--serving", "ways.py:numbers"),
        ("a.npz", "--training", "ways.py:same"),
        ("a.npz", "--serving", "ways.py:nothing"),
        ("a.npz", "--serving", "none.py:same"),
        ("a.npz", "--serving", "broken.py:same"),
        ("ways.py", "--serving", "ways.py:same"),
        ("last", "--serving", "ways.py:same"),
    ],
)
def test_what_cannot_be_compared_is_told_in_three_lines(here, capsys, words):
    (here / "broken.py").write_text("raise ValueError('no service here')")
    assert main(["data", *words, "--progress", "none"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 3


def test_importing_a_way_leaves_the_path_as_it_was(here):
    before = Counter(sys.path)
    _serving.way("ways.py:same", flag="serving")
    (here / "broken.py").write_text("1 / 0")
    with pytest.raises(NetdynoError):
        _serving.way("broken.py:same", flag="serving")
    assert Counter(sys.path) == before
