"""A recipe becomes a patch."""

import subprocess

import pytest

from edits.specimens import FUNCTIONS, PLAIN, at, line_of
from netdyno.edits._base import Edit, Site, Sites, Unsafe, patch, patched, unified
from netdyno.records.trial import Change

FUSED, FOUR, THREADS = (
    Change(id="fused-optimizer"),
    Change(id="loader-workers", settings={"workers": 4}),
    Change(id="threads"),
)
BF16, STAY = Change(id="bf16-autocast"), Change(id="persistent-workers")


def test_an_unknown_change_is_no_edit():
    assert patched(Change(id="glibc-arena-reuse"), PLAIN, Sites(), file="train.py") == Unsafe(
        "glibc-arena-reuse", None, "it is no edit of a script's source"
    )


def test_changes_that_lean_on_each_other_are_written_in_their_order():
    (edit,), unsafe = patch([STAY, FOUR], {"train.py": PLAIN}, Sites(main="train.py"))
    assert unsafe == ()
    assert "num_workers=4, persistent_workers=True)" in edit.after


def test_lines_are_found_again_below_edits_that_moved_them():
    loaders = at(FUNCTIONS, "loaders", "loader = D.DataLoader(").loaders
    optimizers = at(FUNCTIONS, "optimizers", "O.SGD").optimizers
    forwards = at(FUNCTIONS, "forwards", "output = model(images)").forwards
    sites = Sites(loaders=loaders, optimizers=optimizers, forwards=forwards, main="train.py")
    recipe = [THREADS, Change(id="cache-samples"), BF16, FUSED, FOUR, STAY]
    (edit,), unsafe = patch(recipe, {"train.py": FUNCTIONS}, sites)
    assert unsafe == ()
    for text in ("KeptSamples(make_data(train=True))", "num_workers=4,", "fused=True", "torch.autocast(device.type"):
        assert edit.after.count(text) == 1


def test_each_change_goes_to_the_file_where_it_was_seen():
    data = "from torch.utils.data import DataLoader\n\n\ndef loader(d):\n    return DataLoader(d)\n"
    sites = Sites(loaders=(Site("data.py", 5),), main="train.py")
    edits, unsafe = patch([FOUR, THREADS], {"train.py": "import torch\n", "data.py": data}, sites)
    assert unsafe == ()
    assert {edit.file: edit.after for edit in edits} == {
        "train.py": "import torch\n\ntorch.set_num_threads(1)\n",
        "data.py": data.replace("DataLoader(d)", "DataLoader(d, num_workers=4)"),
    }


def test_a_change_is_written_wholly_or_not_at_all():
    files = {"a.py": "import torch\no = torch.optim.Adam(p)\n", "b.py": "import torch\no = make(p)\n"}
    sites = Sites(optimizers=(Site("a.py", 2), Site("b.py", 2)), main="a.py")
    edits, (unsafe,) = patch([FUSED], files, sites)
    assert edits == ()
    assert unsafe.where == Site("b.py", 2)


def test_a_refusal_names_the_line_as_the_user_has_it():
    source = PLAIN.replace("torch.optim.AdamW(", "make(")
    sites = at(source, "optimizers", "make(")
    _, (unsafe,) = patch([FUSED, Change(id="cache-samples")], {"train.py": source}, sites)
    assert unsafe.where.line == line_of(source, "make(")
    assert f"line {unsafe.where.line} " in unsafe.why


@pytest.mark.parametrize("tool", [["patch", "-p1"], ["git", "apply"]])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("file", ["train.py", "src/my train.py"])
def test_the_patch_is_taken_by_the_usual_tools(tool, end, file, tmp_path):
    before = PLAIN.replace("\n", end)
    (edit,), _ = patch([FUSED, FOUR, THREADS, BF16], {file: before}, Sites(main=file))
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before.encode())
    (tmp_path / "it.diff").write_bytes(unified([edit]).encode())
    command = [*tool, "it.diff"] if tool[0] == "git" else [*tool, "--binary", "-i", "it.diff"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert path.read_bytes() == edit.after.encode()


def test_a_last_line_without_an_end_is_said_in_the_diff():
    assert unified([Edit("a.py", "x = 1", "x = 2")]).count("\\ No newline at end of file") == 2
