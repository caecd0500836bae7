"""What a user declares, and how it is found."""

import multiprocessing
import pickle
import random
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset, Subset, TensorDataset

from netdyno.errors import TargetError
from netdyno.targets.workload import Workload, load


def rows(count: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(count * 3.0).view(count, 3), torch.arange(count) % 2


def declared(**changes) -> Workload:
    return Workload(
        **({"name": "specimen", "model": lambda: nn.Linear(3, 2), "train": rows, "batch_size": 8} | changes)
    )


def refused(workload: Workload) -> str:
    with pytest.raises(TargetError) as caught:
        workload.fresh()
    return str(caught.value)


# Fresh


def test_two_copies_with_one_seed_are_equal_and_train_alike():
    workload = declared(model=lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2)), train=drawn)
    after = []
    for _ in range(2):
        subject = workload.fresh(seed=1)
        after.append((subject.model[0].weight.clone(), torch.rand(3), random.random(), np.random.rand()))  # noqa: NPY002
    assert torch.equal(after[0][0], after[1][0])
    # The first built the data, the second found them built: neither may be felt in what is drawn next.
    assert torch.equal(after[0][1], after[1][1])
    assert after[0][2:] == after[1][2:]
    assert not torch.equal(after[0][0], workload.fresh(seed=2).model[0].weight)


def drawn():
    return torch.rand(40, 3), torch.arange(40) % 2


def test_data_drawn_by_chance_are_the_same_for_every_copy_and_process():
    torch.manual_seed(1)
    one, _ = declared(train=drawn).datasets()
    torch.manual_seed(2)
    other, _ = declared(train=drawn).datasets()
    assert torch.equal(one.tensors[0], other.tensors[0])


def test_asking_for_the_data_leaves_the_generators_alone():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    declared(train=drawn).datasets()
    assert torch.equal(torch.get_rng_state(), state)


def test_data_are_built_once():
    calls = []

    def counted():
        calls.append(1)
        return rows()

    workload = declared(train=counted)
    workload.fresh()
    workload.fresh()
    assert len(calls) == 1


def test_without_validation_data_a_tenth_is_held_out_and_tensors_stay_tensors():
    train, val = declared().datasets()
    assert (len(train), len(val)) == (36, 4)
    assert isinstance(train, TensorDataset)
    seen = {row[0].item() for row, _ in (*train, *val)}
    assert len(seen) == 40


def test_of_any_other_dataset_a_subset_is_held_out():
    train, val = declared(train=lambda: list(zip(*rows(), strict=True))).datasets()
    assert isinstance(train, Subset)
    assert (len(train), len(val)) == (36, 4)


def test_what_is_declared_for_the_loader_arrives_there():
    workload = declared(loader={"num_workers": 2, "drop_last": False, "timeout": 9, "persistent_workers": True})
    feed = workload.fresh().feed
    assert (feed.workers, feed.drop_last, feed.persistent_workers, feed.extra) == (2, False, True, {"timeout": 9})
    assert feed.shuffle


def test_updates_are_epochs_times_their_steps_unless_declared():
    assert declared(epochs=3).updates == 3 * 4
    assert declared(steps=77).updates == 77


# Loss and metric


def test_the_loss_fits_the_target():
    classes = declared().fresh()
    batch = next(classes.feed.epochs())
    output = classes.forward(classes.model, batch)
    assert classes.loss(output, batch).item() == pytest.approx(nn.functional.cross_entropy(output, batch[1]).item())
    numbers = declared(train=lambda: (rows()[0], rows()[0][:, :2])).fresh()
    batch = next(numbers.feed.epochs())
    output = numbers.forward(numbers.model, batch)
    assert numbers.loss(output, batch).item() == pytest.approx((output - batch[1]).square().mean().item())


def test_a_batch_that_is_no_tuple_is_the_target_itself():
    workload = declared(
        train=lambda: [{"x": torch.ones(3), "y": torch.tensor(1)} for _ in range(40)],
        forward=lambda model, batch: model(batch["x"]),
        loss=lambda output, batch: nn.functional.cross_entropy(output, batch["y"]),
    )
    subject = workload.fresh()
    batch = next(subject.feed.epochs())
    assert subject.loss(subject.forward(subject.model, batch), batch).requires_grad


def test_the_metric_is_accuracy_where_classes_lie_along_the_second_dimension():
    output = torch.tensor([[0.1, 0.9], [0.9, 0.1]])
    assert declared().score(output, torch.tensor([1, 1])) == 0.5
    maps = torch.zeros(2, 3, 4)
    maps[:, 1] = 1
    assert declared().score(maps, torch.ones(2, 4, dtype=torch.int64)) == 1


@pytest.mark.parametrize(
    ("output", "target"),
    [
        (torch.zeros(4), torch.zeros(4, dtype=torch.int64)),
        (torch.zeros(2, 5, 7), torch.zeros(2, 5, dtype=torch.int64)),
        (torch.zeros(4, 1), torch.zeros(4)),
        ({"logits": torch.zeros(4, 2)}, torch.zeros(4, dtype=torch.int64)),
    ],
)
def test_where_accuracy_does_not_fit_there_is_no_metric(output, target):
    assert declared().score(output, target) is None


# Errors


def test_parts_of_the_wrong_kind_are_refused_in_words():
    assert "returned a `int`" in refused(declared(model=lambda: 3))
    assert "`optimizer` of `specimen` does not give an optimizer" in refused(
        declared(optimizer=lambda parameters: None)
    )
    assert "returned a `int`" in refused(declared(train=lambda: 3))
    assert "`tuple` of `ndarray`, `ndarray`" in refused(declared(train=lambda: (np.zeros(3), np.zeros(3))))
    assert "first dimensions are [3, 4]" in refused(declared(train=lambda: (torch.zeros(3), torch.zeros(4))))
    assert "`train` is empty" in refused(declared(train=lambda: rows(0)))
    assert "`warp`" in refused(declared(device="warp"))


def test_a_batch_larger_than_the_data_is_refused():
    said = refused(declared(batch_size=37))
    assert "`37` is larger than the `36` samples" in said
    assert declared(batch_size=37, loader={"drop_last": False}).fresh().feed.steps_per_epoch == 1


def test_data_without_a_length_need_validation_data():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(zip(*rows(), strict=True))

    assert "can only be read in order" in refused(declared(train=Stream))
    assert declared(train=Stream, val=rows).fresh().feed.iterable


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("num_worker", "num_workers"),
        ("batch_size", "`batch_size=`"),
        ("collate_fn", "`collate=`"),
        ("generator", "seeded"),
    ],
)
def test_what_the_loader_cannot_take_is_refused(key, hint):
    said = refused(declared(loader={key: 1}))
    assert f"`loader` must not hold `{key}`" in said
    assert hint in said


def test_an_error_in_the_users_code_is_told_with_its_line():
    def broken():
        raise ValueError("no weights")

    said = refused(declared(model=broken))
    assert "cannot build `model`" in said
    assert "ValueError: no weights" in said
    assert f"{__file__}:" in said


def test_a_line_of_an_installed_package_is_not_the_users():
    said = refused(declared(model=lambda: nn.Linear("three", 2)))
    assert f"({__file__}:" in said


# Load

SOURCE = """
import torch
from netdyno import Workload

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.ones(3) * index, index % 2

One = Workload(model=lambda: torch.nn.Linear(3, 2), train=Data, val=Data, batch_size=4)

def other():
    return Workload(model=lambda: torch.nn.Linear(3, 2), train=Data, name="mine")

number = 3
"""


@pytest.fixture
def work(tmp_path, request):
    name = f"work_{abs(hash(request.node.name))}"
    file = tmp_path / f"{name}.py"
    file.write_text(SOURCE)
    yield file
    sys.modules.pop(name, None)
    sys.path.remove(str(tmp_path)) if str(tmp_path) in sys.path else None


def test_a_workload_is_found_by_name_and_named_after_it(work):
    assert load(f"{work}:One").name == "one"
    assert load(f"{work}:One") is load(f"{work}:One")
    assert load(f"{work}:other").name == "mine"


def test_the_only_workload_of_a_file_needs_no_name(work):
    assert load(str(work)) is load(f"{work}:One")


def test_a_name_that_is_not_there_is_answered_with_those_that_are(work):
    with pytest.raises(TargetError, match="has no `Two`") as caught:
        load(f"{work}:Two")
    assert "One" in caught.value.because


def test_what_is_no_workload_is_refused(work):
    with pytest.raises(TargetError, match="is not a workload"):
        load(f"{work}:number")


def test_its_datasets_can_be_unpickled_by_a_spawned_worker(work):
    train, _ = load(f"{work}:One").datasets()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(len, (train,)) == 8


def test_two_files_of_one_name_are_two_modules(tmp_path):
    found = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "job.py").write_text(SOURCE)
        found.append(load(f"{tmp_path / folder / 'job.py'}:One"))
    assert found[0] is not found[1]
    for workload in found:
        train, _ = workload.datasets()
        assert type(pickle.loads(pickle.dumps(train))) is type(train)
    sys.modules.pop("job", None)


def test_a_file_named_like_a_library_leaves_the_library_alone(tmp_path):
    (tmp_path / "random.py").write_text(SOURCE)
    load(f"{tmp_path / 'random.py'}:One")
    assert sys.modules["random"] is random


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("nowhere.py:One", "cannot find `nowhere.py`"),
        ("no.such.module:One", "cannot import `no.such.module`"),
        ("", "cannot find ``"),
        (":One", "cannot find ``"),
    ],
)
def test_what_cannot_be_found_is_refused(reference, says):
    with pytest.raises(TargetError, match=says):
        load(reference)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def broken(:", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("x = 1\ny = x / 0\n", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_its_line(tmp_path, source, says):
    file = tmp_path / "broken.py"
    file.write_text(source)
    with pytest.raises(TargetError) as caught:
        load(f"{file}:One")
    assert says in caught.value.because
    assert f"{file}:" in caught.value.because
