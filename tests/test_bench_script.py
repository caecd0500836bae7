"""The walk on a script, from end to end, on one that is over in a second."""

import pytest

from netdyno import bench_script
from netdyno.errors import NetdynoError
from netdyno.records.evidence import LoaderUse, ScriptTrace, StepTimeline
from netdyno.records.record import Plan
from netdyno.store import Store
from netdyno.targets.script import Way, again, parse

TRAINS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,)))
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(6):
    for x, y in DataLoader(data, batch_size=8):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
"""


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("script")
    (folder / "train.py").write_text(TRAINS)
    store = Store(folder / "store")
    record = bench_script.diagnose(parse("train.py", cwd=folder), Plan(budget_s=60.0), store=store)
    return folder, store, record


def seen(record, kind):
    return next(item for item in record.evidence if isinstance(item, kind))


def test_its_updates_are_counted_to_its_own_end(diagnosed):
    _, _, record = diagnosed
    assert seen(record, ScriptTrace).updates == 48
    assert seen(record, ScriptTrace).stopped == "ended"
    assert seen(record, StepTimeline).phases["forward"].running > 0


def test_places_are_named_as_the_author_names_them(diagnosed):
    _, _, record = diagnosed
    trace = seen(record, ScriptTrace)
    assert [(place.file, place.line) for place in trace.places["optimizers"]] == [("train.py", 8)]
    assert seen(record, LoaderUse).loaders[0].where.file == "train.py"


def test_what_is_wrong_is_found_with_its_line(diagnosed):
    _, _, record = diagnosed
    told = {outcome.rule: outcome for outcome in record.outcomes}
    assert told["sequential-sampler"].finding.where.line == 10


def test_what_it_wrote_is_listed_and_its_folder_is_as_it_was(diagnosed):
    folder, _, record = diagnosed
    assert any("model.pt" in name for name in record.wrote)
    assert sorted(path.name for path in folder.iterdir()) == ["store", "train.py"]


def test_the_record_is_kept_and_says_how_to_start_it_again(diagnosed):
    folder, store, record = diagnosed
    target = store.load(record.id).target
    script = again(target.command, target.folder)
    assert (script.argv[1:], script.cwd) == (("train.py",), folder)


def test_a_script_that_trains_nothing_is_told_so_and_not_diagnosed(diagnosed, tmp_path):
    _, store, _ = diagnosed  # which knows this machine's ceilings already
    (tmp_path / "train.py").write_text("import torch\nprint(torch.ones(3))\n")
    with pytest.raises(NetdynoError, match="no update was seen"):
        bench_script.diagnose(parse("train.py", cwd=tmp_path), Plan(budget_s=60.0), store=store)


DECODES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Decoded(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        value = 0.0
        for turn in range(6000):
            value = (value + index * turn) % 7.0
        return torch.full((8,), value), index % 2


torch.manual_seed(0)
loader = DataLoader(Decoded(), batch_size=8, shuffle=True)
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(100000):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


@pytest.fixture(scope="module")
def tuned(diagnosed):
    folder, store, _ = diagnosed
    (folder / "decodes.py").write_text(DECODES)
    plan = Plan(budget_s=60.0, only=("cache-samples",), spawns=3)
    return bench_script.tune(parse("decodes.py", cwd=folder), plan, store=store)


def test_a_gain_is_proven_inside_the_running_script_and_kept(tuned):
    (trial,) = tuned.trials
    assert trial.form == "in-process"
    assert [change.id for change in tuned.recipe] == ["cache-samples"]
    assert any(parity.measure == "bits" and parity.holds for parity in trial.parity)


def test_its_patch_is_run_before_its_speed_up_is_claimed(tuned):
    assert tuned.patch.verified is not None, tuned.patch.says
    assert tuned.patch.parity.holds
    assert "KeptSamples(Decoded())" in tuned.patch.diff
    # On a busy machine three pairs of whole scripts may not be enough: then nothing is claimed of the patch, and that is said.
    assert tuned.patch.verified == (tuned.attribution.speedup.low > 1) or "not surely faster" in tuned.patch.says


def test_rows_and_residual_add_up_for_a_script_too(tuned):
    split = tuned.attribution
    rows = sum(share.gain.middle for share in split.shares) + split.residual.middle
    assert rows == pytest.approx(split.total.middle)


def test_who_goes_on_with_a_run_runs_the_script_as_it_was_run(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n")
    way = Way(in_place=True, online=True)
    store = Store(tmp_path / "store")
    record = bench_script._blank(parse("train.py", cwd=tmp_path), Plan(), store, way)
    assert bench_script.way_of(record) == way
