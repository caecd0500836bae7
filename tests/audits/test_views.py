"""What a user names, as audits see it."""

import csv

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset, IterableDataset

from netdyno.audits._arrays import modality_of
from netdyno.audits._views import Named, opened
from netdyno.audits._workloads import view as view_of
from netdyno.errors import NetdynoError, TargetError
from netdyno.targets.workload import Workload


def write(path, *rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def people(path, count=40, first=0):
    rows = [
        (
            first + at,
            20.5 + at,
            ["red", "green"][at % 2],
            "" if at == 3 else at % 5,
            f"p{at // 4}",
            f"2024-01-{at % 28 + 1:02}",
            ["no", "yes"][at % 2],
        )
        for at in range(count)
    ]
    return write(path, ("id", "age", "colour", "visits", "patient", "when", "ill"), *rows)


def test_a_table_gives_numbers_and_categories_and_leaves_the_row_numbers_out(tmp_path):
    named = Named("ill", people(tmp_path / "test.csv", 12, 100), "patient", "when")
    view = opened(people(tmp_path / "train.csv"), named=named)
    assert (view.modality, view.task, view.classes) == ("table", "classes", ("no", "yes"))
    assert view.columns == ("age", "colour", "visits")
    assert view.notes["categories"] == {"colour": ("green", "red")}
    assert view.notes["left out"] == ("id",)
    assert view.train.x[0].tolist() == [20.5, 1.0, 0.0]
    assert np.isnan(view.train.x[3, 2])
    assert view.train.groups[5] == "p1"
    assert view.train.times[1] - view.train.times[0] == 86400
    assert view.parts["test"].y.tolist() == [0, 1] * 6


def test_numbers_to_learn_make_a_regression_and_few_whole_ones_classes(tmp_path):
    path = write(tmp_path / "a.csv", ("x", "target"), *((at * 0.5, at * 1.5) for at in range(30)))
    assert opened(path).task == "numbers"
    path = write(tmp_path / "b.csv", ("x", "target"), *((at * 0.5, at % 3) for at in range(30)))
    assert opened(path).task == "classes"
    assert opened(write(tmp_path / "c.csv", ("x", "z"), *((at * 0.5, at) for at in range(30)))).task == "none"


def test_sentences_make_a_text(tmp_path):
    rows = [(f"this is the sentence number {at} of many", at % 2) for at in range(40)]
    view = opened(write(tmp_path / "a.tsv", ("words", "label"), *rows), named=Named("label"))
    assert view.modality == "text"
    assert view.train.x[0].startswith("this is")


@pytest.mark.parametrize(
    ("rows", "because"),
    [
        ((("a", "b"), (1, 2), (1,)), "line 3 has 1 cells"),
        ((("a", "a"), (1, 2)), "two columns are called `a`"),
        (((1.5, 2), (1, 2)), "no names but numbers"),
        ((("a", "b"),), "0 rows"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_with_its_line(tmp_path, rows, because):
    with pytest.raises(TargetError) as refused:
        opened(write(tmp_path / "a.csv", *rows))
    assert because in refused.value.because


def test_a_misspelt_column_is_told_its_neighbour(tmp_path):
    with pytest.raises(TargetError) as refused:
        opened(people(tmp_path / "a.csv"), named=Named("il"))
    assert "`ill`" in refused.value.hint
    with pytest.raises(TargetError, match="does not fit"):
        opened(people(tmp_path / "a.csv"), named=Named("ill", write(tmp_path / "b.csv", ("age", "ill"), (1, 2))))


def test_a_table_is_sampled_by_the_seed_and_says_which_rows(tmp_path):
    path = people(tmp_path / "a.csv", 200)
    looks = [opened(path, named=Named("ill"), sample=50, seed=seed).train for seed in (1, 1, 2)]
    assert len(looks[0]) == 50
    assert looks[0].total == 200
    assert looks[0].indices.tolist() == looks[1].indices.tolist() != looks[2].indices.tolist()
    assert looks[0].x[:, 0].tolist() == [20.5 + at for at in looks[0].indices]


def picture(path, value, size=(12, 10)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, value).save(path)


def test_a_folder_of_images_takes_its_classes_from_the_names_of_folders(tmp_path):
    for split, kind, value in (("train", "cat", 10), ("train", "dog", 20), ("valid", "dog", 30)):
        picture(tmp_path / split / kind / "1.png", value)
    view = opened(str(tmp_path))
    assert list(view.parts) == ["train", "val"]
    assert view.classes == ("cat", "dog")
    assert view.train.x.shape == (2, 1, 10, 12)
    assert view.train.x[:, 0, 0, 0].tolist() == [10, 20]
    assert view.parts["val"].y.tolist() == [1]
    assert view.notes["names"]["val"] == ("valid/dog/1.png",)


def test_pictures_of_several_sizes_are_looked_at_in_one_and_a_single_split_is_train(tmp_path):
    picture(tmp_path / "cat" / "1.png", 10)
    picture(tmp_path / "dog" / "1.png", 10, (300, 200))
    view = opened(str(tmp_path))
    assert view.train.x.shape == (2, 1, 64, 64)
    assert view.others == ()
    assert len(view.notes["sizes"]) == 2


def test_a_broken_picture_and_an_empty_folder_are_told(tmp_path):
    with pytest.raises(TargetError, match="cannot look at"):
        opened(str(tmp_path))
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_bytes(b"not a picture")
    with pytest.raises(TargetError, match=r"1\.png"):
        opened(str(tmp_path))


def test_arrays_are_recognised_by_shape_and_keep_their_labels(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(
        path,
        x_train=np.zeros((30, 8, 8, 3)),
        y_train=np.arange(30) % 3 + 1,
        X_valid=np.zeros((9, 8, 8, 3)),
        y_valid=np.ones(9, int),
    )
    view = opened(str(path))
    assert view.modality == "images"
    assert view.train.x.shape == (30, 3, 8, 8)
    assert view.train.y.max() == 3
    assert list(view.parts) == ["train", "val"]


@pytest.mark.parametrize(
    ("shape", "modality"),
    [
        ((28, 28), "images"),
        ((1, 28, 28), "images"),
        ((32, 32, 3), "images"),
        ((50, 6), "series"),
        ((7,), "table"),
        ((2, 2, 2, 2), "tensors"),
        ((16, 10, 10), "tensors"),
    ],
)
def test_a_shape_tells_the_modality(shape, modality):
    assert modality_of(np.zeros((4, *shape), dtype=np.float32)) == modality


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=np.zeros((3, 2)), y_train=np.zeros(4))
    with pytest.raises(TargetError, match="cannot look"):
        opened(str(tmp_path / "a.npz"))
    np.savez(tmp_path / "b.npz", images=np.zeros((3, 2)))
    with pytest.raises(TargetError) as refused:
        opened(str(tmp_path / "b.npz"))
    assert "images" in refused.value.because


class Drawing(Dataset):
    """Draws when it is read, as data sets with their own noise do."""

    def __len__(self):
        return 30

    def __getitem__(self, index):
        return torch.rand(4), index % 3


def workload(train, model=None, **fields):
    return Workload(model=model or (lambda: nn.Linear(4, 3)), train=train, **fields)


def test_a_workload_is_read_without_its_transform_and_leaves_no_trace():
    def broken(sample):
        raise AssertionError("the transform was called")

    declared = workload(Drawing, augment=broken)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    views = [view_of(declared, "w") for _ in range(2)]
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(views[0].train.x, views[1].train.x)
    assert views[0].augment is broken
    assert sum(len(part) for part in views[0].parts.values()) == 30


def test_whole_numbers_that_a_model_looks_up_are_a_text():
    def tokens():
        return torch.arange(400).view(40, 10), torch.arange(40) % 2

    looked_up = view_of(workload(tokens, lambda: nn.EmbeddingBag(400, 2)), "w")
    assert looked_up.modality == "text"
    at = looked_up.train.indices[0]
    assert looked_up.train.x[0].split()[0] in {str(10 * row) for row in range(40)}
    assert looked_up.notes["tokens"]["train"].shape[1] == 10
    assert view_of(workload(tokens), "w").modality == "table"
    assert at >= 0


def test_texts_of_different_lengths_and_several_inputs_are_read():
    class Ragged(Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, index):
            return torch.arange(index + 1), index % 2

    assert view_of(workload(Ragged), "w").modality == "text"
    two = view_of(workload(lambda: (torch.rand(20, 3), torch.rand(20, 2), torch.rand(20))), "w")
    assert two.train.x.shape[1] == 5
    assert two.task == "numbers"


def test_data_that_can_only_be_read_in_order_are_read_from_the_front():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter((torch.full((4,), float(at)), at % 2) for at in range(100))

    view = view_of(workload(Stream, val=Stream), "w", sample=10)
    assert view.train.x[:, 0].tolist() == list(range(10))


def test_a_data_set_that_raises_is_told_with_its_line():
    class Broken(Drawing):
        def __getitem__(self, index):
            raise KeyError("label")

    with pytest.raises(TargetError) as refused:
        view_of(workload(Broken), "w")
    assert "KeyError" in refused.value.because


@pytest.mark.parametrize("target", ["nothing.csv", "nothing.npz", "data.parquet", "nowhere", "nowhere.py"])
def test_what_cannot_be_looked_at_is_refused_in_three_lines(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NetdynoError) as refused:
        opened(target)
    assert refused.value.because
    assert refused.value.hint


def test_columns_are_named_for_tables_only(tmp_path):
    picture(tmp_path / "cat" / "1.png", 10)
    with pytest.raises(NetdynoError, match="--target-column"):
        opened(str(tmp_path), named=Named("label"))
