"""One line behind the imports, for the whole process."""

from edits.specimens import HUGGING, NOTEBOOK, PLAIN, edited, refused
from netdyno.edits._base import Sites, patched
from netdyno.records.trial import Change

THREADS = Change(id="threads", settings={"threads": 3})
PRECISION = Change(id="matmul-precision")
FLUSH = Change(id="flush-denormal")


def lines_after(change, source):
    return patched(change, source, Sites(main="train.py"), file="train.py").split("\n")


def test_docstring_future_and_shebang_stay_first():
    lines = lines_after(THREADS, PLAIN)
    assert lines[:8] == PLAIN.split("\n")[:8]
    assert lines[8:11] == ["", "torch.set_num_threads(3)", ""]


def test_it_stands_behind_the_first_run_of_imports_in_a_notebook():
    lines = lines_after(THREADS, NOTEBOOK)
    assert (
        lines[lines.index("torch.set_num_threads(3)") - 2] == "from torch.utils.data import DataLoader, TensorDataset"
    )


def test_it_stands_behind_an_import_of_torch_that_comes_late():
    source = "import os\nos.environ['A'] = '1'\nimport torch\nimport numpy\nprint(1)\n"
    assert lines_after(THREADS, source)[3:7] == ["import numpy", "", "torch.set_num_threads(3)", ""]


def test_torch_keeps_its_name():
    assert lines_after(THREADS, "import torch as th\n") == ["import torch as th", "", "th.set_num_threads(3)", ""]


def test_torch_is_imported_where_it_is_not_yet():
    assert edited(THREADS, HUGGING)[1][0] == "import torch"


def test_a_call_of_the_authors_own_is_changed_where_it_stands():
    source = "import torch\n\n\ndef main():\n    torch.set_num_threads(args.threads)  # as told\n"
    assert edited(THREADS, source) == (
        ["    torch.set_num_threads(args.threads)  # as told"],
        ["    torch.set_num_threads(3)  # as told"],
    )


def test_two_calls_are_left_alone():
    refused(THREADS, "import torch\ntorch.set_num_threads(1)\ntorch.set_num_threads(2)\n")


def test_flushing_and_precision_are_one_line_each():
    assert "torch.set_flush_denormal(True)" in edited(FLUSH, PLAIN)[1]
    assert 'torch.set_float32_matmul_precision("medium")' in edited(PRECISION, PLAIN)[1]
    only = Change(id="matmul-precision", settings={"convolutions": False})
    assert not any("mkldnn" in line for line in edited(only, PLAIN)[1])


def test_a_precision_set_through_the_backends_is_left_alone():
    refused(PRECISION, "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\n")
