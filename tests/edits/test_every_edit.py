"""What all edits promise, whoever writes the next one."""

import functools
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edits.specimens import ALL, ALONE, PLAIN
from netdyno import plugins
from netdyno.edits._base import Unsafe, catalogue, patched
from netdyno.interventions._base import catalogue as intervention_catalogue
from netdyno.records.trial import Change

EDITS = dict(plugins.modules("edits"))
HEADINGS = ("Certain:", "Left alone:")
EXAMPLES = int(os.environ.get("NETDYNO_EXAMPLES", "8"))  # drawn scripts; a night may be spent on thousands


@functools.cache
def result(change, source):
    return patched(Change(id=change), source, ALONE, file="train.py")


@pytest.mark.parametrize("change", EDITS)
def test_it_is_the_edit_of_an_intervention_with_the_same_stage(change):
    assert not isinstance(EDITS[change], plugins.Broken), EDITS[change]
    assert intervention_catalogue()[change].stage == EDITS[change].STAGE


@pytest.mark.parametrize("change", EDITS)
def test_it_says_what_is_certain_and_what_it_leaves_alone(change):
    places = [EDITS[change].__doc__.find(f"\n{heading}") for heading in HEADINGS]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("change", EDITS)
def test_what_it_writes_compiles_or_it_says_why_it_does_not_write(change):
    for style, source in ALL.items():
        after = result(change, source)
        if isinstance(after, Unsafe):
            assert (after.change, after.why != "") == (change, True), style
        else:
            compile(after, style, "exec")


@pytest.mark.parametrize("change", EDITS)
def test_a_second_time_nothing_happens(change):
    for style, source in ALL.items():
        once = result(change, source)
        if isinstance(once, str):
            twice = result(change, once)
            assert isinstance(twice, Unsafe) or twice == once, style


@pytest.mark.parametrize("style", ["plain", "trainer"])
@pytest.mark.parametrize("change", EDITS)
def test_line_ends_and_a_byte_order_mark_stay(change, style):
    plain = result(change, ALL[style])
    if isinstance(plain, str):
        other = result(change, "\ufeff" + ALL[style].replace("\n", "\r\n"))
        assert other == "\ufeff" + plain.replace("\n", "\r\n")


@pytest.mark.parametrize("change", EDITS)
def test_a_source_that_does_not_compile_is_left_alone(change):
    assert isinstance(result(change, PLAIN + "\nprint 'two'\n"), Unsafe)


@pytest.mark.parametrize("change", EDITS)
def test_an_empty_source_is_no_reason_to_stumble(change):
    after = result(change, "")
    assert isinstance(after, Unsafe | str)


# What a person may write between two lines of theirs: it must all come back.
BETWEEN = st.sampled_from(["", "# a remark", "   ", "#%% cell", "\t", "# über\u2028allem", "#  spaced   out  "])
# Where a line may go without becoming part of a bracket or a string: before these words.
STARTS = ("import ", "from ", "model", "optimizer", "loader", "for ", "def ", "class ", "net", "opt", "dl", "trainer")


@st.composite
def scripts(draw):
    """A script in one of the styles, with remarks strewn in, and the lines of the script without them."""
    lines = ALL[draw(st.sampled_from(sorted(ALL)))].split("\n")
    strewn = []
    for line in lines:
        if line.startswith(STARTS):
            strewn += draw(st.lists(BETWEEN, max_size=2))
        strewn.append(line)
    if draw(st.booleans()):
        strewn = strewn[:-1]  # no end of line at the end of the file
    return "\n".join(strewn)


@settings(max_examples=EXAMPLES, deadline=None)
@given(source=scripts(), change=st.sampled_from(sorted(catalogue())))
def test_lines_that_the_change_does_not_mean_come_back_byte_for_byte(source, change):
    after = result(change, source)
    if isinstance(after, Unsafe):
        return
    meant = MEANT[change]
    kept = [line for line in source.split("\n") if not any(word in line for word in meant)]
    rest = iter(after.split("\n"))
    assert all(any(line == other for other in rest) for line in kept)


LOADER = ("DataLoader(", "DataLoaders.", "NeuralNet", "max_epochs", "batch_size", "num_workers")
OPTIMIZER = ("optim.", "O.SGD(", "NeuralNet", "batch_size")
# Words of the lines that each change may touch; all others are the author's.
MEANT = {
    "bf16-autocast": ("output", "loss", "target", ")", "max_epochs", "batch_size"),
    "cache-samples": LOADER,
    "channels-last": (),
    "compile-model": ("batch_size",),
    "flush-denormal": (),
    "foreach-optimizer": OPTIMIZER,
    "fused-optimizer": OPTIMIZER,
    "inference-mode": ("no_grad",),
    "loader-workers": LOADER,
    "matmul-precision": (),
    "persistent-workers": LOADER,
    "pin-memory": (*LOADER, ".to("),
    "prefetch-factor": LOADER,
    "set-to-none": ("zero_grad",),
    "tensor-slicing": LOADER,
    "threads": (),
}


def test_the_room_needs_no_torch():
    code = "import sys; from netdyno.edits import _base; _base.catalogue(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
