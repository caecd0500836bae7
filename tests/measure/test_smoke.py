"""The smoke baseline: what is healthy passes, and every planted fault is called by its name."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, IterableDataset

from netdyno.errors import TargetError
from netdyno.measure.smoke import CHECKS, smoke
from netdyno.targets import garage
from netdyno.targets.workload import Workload, load


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


CENTRES = torch.randn(4, 6, generator=torch.Generator().manual_seed(7)) * 2


def rows(count: int = 160, *, offset: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of six numbers about four centres; the label says which."""
    labels = torch.arange(count) % 4
    noise = torch.randn(count, 6, generator=torch.Generator().manual_seed(count))
    return CENTRES[labels] + noise, labels + offset


def images(*shape: int, count: int = 96) -> tuple[torch.Tensor, torch.Tensor]:
    """Images whose brightness is their label."""
    labels = torch.arange(count) % 2
    noise = torch.rand(count, *shape, generator=torch.Generator().manual_seed(0))
    return noise + labels.view(-1, *(1 for _ in shape)), labels


def mlp(outputs: int = 4, inputs: int = 6) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs))


def cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


def healthy(**changes) -> Workload:
    settings = {
        "name": "specimen",
        "model": mlp,
        "train": rows,
        "val": lambda: rows(40),
        "batch_size": 16,
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    }
    return Workload(**(settings | changes))


def regression(**changes) -> Workload:
    def data(count=160):
        inputs, _ = rows(count)
        return inputs, inputs.sum(1)

    settings = {"train": data, "val": lambda: data(40), "model": lambda: mlp(1), "optimizer": gently}
    return healthy(**(settings | changes))


def gently(parameters):
    return torch.optim.SGD(parameters, lr=0.003)


def checked(workload: Workload, tmp_path, **settings):
    checks = smoke(workload, folder=tmp_path, **settings)
    assert [check.name for check in checks] == [check.__name__.replace("_", "-") for check, _ in CHECKS]
    return {check.name: check for check in checks}


def failures(checks) -> set[str]:
    return {name for name, check in checks.items() if check.ok is False}


def test_a_healthy_workload_passes_everything_and_says_what_was_measured(tmp_path):
    checks = checked(healthy(), tmp_path)
    assert {check.ok for check in checks.values()} == {True}
    assert all("`" in check.says for check in checks.values())
    assert "`160` training and `40` validation" in checks["path"].says
    assert "`160` of `160`" in checks["samples"].says


@pytest.mark.parametrize("name", sorted(garage.names()))
def test_every_workload_of_the_garage_passes(name, tmp_path):
    try:
        workload = load(f"garage:{name}")
    except TargetError as error:
        pytest.skip(f"{error.because}; {error.hint}")
    checks = checked(workload, tmp_path)
    assert {check.name: check.says for check in checks.values() if not check.ok} == {}


def test_nothing_is_left_behind(tmp_path):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    checked(healthy(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(state, torch.get_rng_state())


# Path


def test_a_missing_file_is_named_and_where_its_path_ends(tmp_path):
    absent = tmp_path / "data" / "train.pt"
    checks = checked(healthy(train=lambda: torch.load(absent)), tmp_path)
    assert failures(checks) == {"path"}
    assert f"`{absent}`" in checks["path"].says
    assert f"`{tmp_path}` is the last" in checks["path"].says
    assert checks["model"].says == "not checked: `path` failed"


class Faulty(Dataset):
    """Good rows but one."""

    def __init__(self, at: int, fault):
        self.inputs, self.labels = rows()
        self.at, self.fault = at, fault

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        sample = self.inputs[index], self.labels[index]
        return self.fault(sample) if index == self.at else sample


def test_a_file_that_is_missing_when_its_sample_is_read_is_named(tmp_path):
    absent = tmp_path / "077.pt"
    checks = checked(healthy(train=lambda: Faulty(77, lambda _: torch.load(absent))), tmp_path)
    assert failures(checks) == {"samples"}
    assert "sample `77`" in checks["samples"].says
    assert f"`{absent}`" in checks["samples"].says


# Samples


def test_a_sample_that_raises_is_named(tmp_path):
    def broken(_):
        raise ValueError("truncated file")

    checks = checked(healthy(train=lambda: Faulty(123, broken)), tmp_path)
    assert failures(checks) == {"samples"}
    assert "sample `123`" in checks["samples"].says
    assert "truncated file" in checks["samples"].says


def test_a_sample_of_another_shape_is_named(tmp_path):
    checks = checked(healthy(train=lambda: Faulty(41, lambda sample: (sample[0][:5], sample[1]))), tmp_path)
    assert failures(checks) == {"samples"}
    assert "sample `41` has shapes `(5,) ()` where others have `(6,) ()`" in checks["samples"].says


def test_shapes_that_differ_are_fine_where_collate_pads_them(tmp_path):
    def pad(samples):
        return torch.stack([F.pad(row, (0, 6 - len(row))) for row, _ in samples]), torch.stack([y for _, y in samples])

    data = Faulty(41, lambda sample: (sample[0][:5], sample[1]))
    assert failures(checked(healthy(train=lambda: data, collate=pad), tmp_path)) == set()


def test_a_transform_that_raises_is_named(tmp_path):
    checks = checked(healthy(augment=lambda sample: sample[2]), tmp_path)
    assert failures(checks) == {"samples"}
    assert "`augment` raises `IndexError" in checks["samples"].says


def test_an_input_that_is_not_finite_is_named(tmp_path):
    spoilt = torch.tensor([1.0, float("nan"), 0, 0, float("inf"), 0])
    checks = checked(healthy(train=lambda: Faulty(9, lambda sample: (spoilt, sample[1]))), tmp_path)
    assert "sample `9`" in checks["finite"].says
    assert "`2` of its `6` numbers" in checks["finite"].says
    assert failures(checks) == {"finite"}


class Stream(IterableDataset):
    def __iter__(self):
        return zip(*rows(), strict=True)


def test_data_that_can_only_be_read_in_order_are_checked_too(tmp_path):
    checks = checked(healthy(train=Stream), tmp_path)
    assert failures(checks) == set()
    assert "`160` samples read" in checks["samples"].says


# Layout


@pytest.mark.parametrize(
    ("shape", "says", "hint"),
    [
        ((8, 8, 3), "channels come last (HWC)", "image.permute(2, 0, 1)"),
        ((1, 8, 8), "`1` channels (`(16, 1, 8, 8)`) and takes `3`", "in_channels=1"),
        ((8, 8), "no dimension for its `3` channels", "unsqueeze(0)"),
        ((2, 3, 8, 8), "`5` dimensions where it takes `4`", "CHW"),
    ],
)
def test_images_in_the_wrong_layout_are_named(tmp_path, shape, says, hint):
    data = images(*shape)
    checks = checked(healthy(model=cnn, train=lambda: data, val=None), tmp_path)
    assert failures(checks) == {"layout"}
    assert says in checks["layout"].says
    assert "`0` receives" in checks["layout"].says
    assert hint in checks["layout"].hint


def test_a_wrong_number_of_features_is_named(tmp_path):
    checks = checked(healthy(model=lambda: mlp(inputs=7)), tmp_path)
    assert failures(checks) == {"layout"}
    assert "receives `6` features (`(16, 6)`) and takes `7`" in checks["layout"].says


def test_images_that_a_linear_layer_wants_flat_are_named(tmp_path):
    data = images(2, 3)
    checks = checked(healthy(train=lambda: data, val=None), tmp_path)
    assert "takes rows of `6` features" in checks["layout"].says
    assert "nn.Flatten()" in checks["layout"].hint


class Reader(nn.Module):
    def __init__(self, **settings):
        super().__init__()
        self.lstm = nn.LSTM(3, 8, **settings)
        self.head = nn.Linear(8, 2)

    def forward(self, series):
        return self.head(self.lstm(series)[0][:, -1])


def test_a_batch_taken_for_time_is_named(tmp_path):
    data = images(5, 3)
    checks = checked(healthy(model=Reader, train=lambda: data, val=None), tmp_path)
    assert failures(checks) == {"layout"}
    assert "takes the `16` samples of a batch for moments in time" in checks["layout"].says
    assert "batch_first=True" in checks["layout"].hint
    assert (
        failures(checked(healthy(model=lambda: Reader(batch_first=True), train=lambda: data, val=None), tmp_path))
        == set()
    )


def test_a_series_without_its_feature_dimension_is_named(tmp_path):
    data = images(5)
    checks = checked(healthy(model=lambda: Reader(batch_first=True), train=lambda: data, val=None), tmp_path)
    assert "`lstm` receives `(16, 5)` and takes `3` features" in checks["layout"].says


def test_ids_beyond_the_table_are_named(tmp_path):
    ids = torch.arange(160).view(40, 4)
    model = lambda: nn.Sequential(nn.Embedding(100, 4), nn.Flatten(), nn.Linear(16, 4))
    checks = checked(healthy(model=model, train=lambda: (ids, ids[:, 0] % 4), val=None, batch_size=36), tmp_path)
    assert failures(checks) == {"layout"}
    assert "`100` rows, and ids run from" in checks["layout"].says


def test_whatever_else_stops_the_model_is_told_with_its_place(tmp_path):
    model = lambda: nn.Sequential(nn.LayerNorm(5), nn.Linear(6, 4))
    checks = checked(healthy(model=model), tmp_path)
    assert failures(checks) == {"layout"}
    assert "stops at `0`, which receives `(16, 6)`" in checks["layout"].says


# Types


@pytest.mark.parametrize(("kind", "hint"), [(torch.float64, "torch.float32"), (torch.uint8, "/ 255")])
def test_inputs_of_the_wrong_type_are_named_and_the_rest_is_checked_nevertheless(tmp_path, kind, hint):
    inputs, labels = rows()
    checks = checked(healthy(train=lambda: (inputs.abs().to(kind), labels), val=None), tmp_path)
    assert failures(checks) == {"dtype"}
    assert f"receives `{str(kind)[6:]}` numbers, and its weights are `float32`" in checks["dtype"].says
    assert hint in checks["dtype"].hint
    assert checks["layout"].ok
    assert checks["labels"].ok


def test_a_model_that_casts_by_itself_is_left_alone(tmp_path):
    class Casting(nn.Sequential):
        def forward(self, x):
            return super().forward(x.float())

    inputs, labels = rows()
    workload = healthy(model=lambda: Casting(nn.Linear(6, 4)), train=lambda: (inputs.double(), labels), val=None)
    assert failures(checked(workload, tmp_path)) == set()


def test_ids_that_are_no_whole_numbers_are_named(tmp_path):
    ids = torch.arange(160.0).view(40, 4)
    model = lambda: nn.Sequential(nn.Embedding(160, 4), nn.Flatten(), nn.Linear(16, 4))
    checks = checked(healthy(model=model, train=lambda: (ids, ids[:, 0].long() % 4), val=None), tmp_path)
    assert failures(checks) == {"dtype"}
    assert "`float32` numbers, and looks up `int64`" in checks["dtype"].says


# Labels


def test_labels_that_count_from_one_are_named(tmp_path):
    checks = checked(healthy(train=lambda: rows(offset=1), val=None), tmp_path)
    assert failures(checks) == {"labels"}
    assert "from `1` to `4`" in checks["labels"].says
    assert "off by one" in checks["labels"].says
    assert checks["labels"].hint == "count from 0: `labels - 1`"


@pytest.mark.parametrize("offset", [3, -2])
def test_labels_outside_the_classes_are_named(tmp_path, offset):
    checks = checked(healthy(train=lambda: rows(offset=offset), val=None), tmp_path)
    assert failures(checks) == {"labels"}
    assert f"from `{offset}` to `{offset + 3}`" in checks["labels"].says


def test_an_output_that_no_label_uses_is_named(tmp_path):
    checks = checked(healthy(model=lambda: mlp(5)), tmp_path)
    assert failures(checks) == {"labels"}
    assert "output `4` is never used" in checks["labels"].says
    shifted = checked(healthy(model=lambda: mlp(5), train=lambda: rows(offset=1), val=None), tmp_path)
    assert "output `0` is never used" in shifted["labels"].says
    assert "`labels - 1`" in shifted["labels"].hint


def test_labels_that_cross_entropy_passes_over_are_fine(tmp_path):
    inputs, labels = rows()
    labels[::9] = -100
    assert failures(checked(healthy(train=lambda: (inputs, labels), val=None), tmp_path)) == set()


@pytest.mark.parametrize("declared", [F.cross_entropy, nn.CrossEntropyLoss()])
def test_float_labels_for_cross_entropy_are_named(tmp_path, declared):
    inputs, labels = rows()
    checks = checked(healthy(train=lambda: (inputs, labels.float()), val=None, loss=declared), tmp_path)
    assert failures(checks) == {"labels"}
    assert "labels are `float32`" in checks["labels"].says


def test_classes_stored_as_numbers_with_a_point_are_named_though_no_loss_is_declared(tmp_path):
    inputs, labels = rows()
    checks = checked(healthy(train=lambda: (inputs, labels.float()), val=None), tmp_path)
    assert failures(checks) == {"labels"}
    assert "whole numbers from `0` to `3` stored as `float32`" in checks["labels"].says


@pytest.mark.parametrize(
    "declared", [None, F.mse_loss, nn.L1Loss(), lambda output, target: (output - target).square().mean()]
)
def test_a_column_compared_with_a_row_is_named(tmp_path, declared):
    checks = checked(regression(loss=declared), tmp_path)
    assert failures(checks) == {"labels"}
    assert "outputs `(16, 1)` against targets `(16,)`" in checks["labels"].says
    assert "`(16, 16)`" in checks["labels"].says


def test_a_loss_that_squeezes_by_itself_is_left_alone(tmp_path):
    workload = regression(loss=lambda output, target: (output.squeeze(1) - target).square().mean())
    assert failures(checked(workload, tmp_path)) == set()


# Loss, learning, metric


def test_a_loss_that_is_not_finite_is_named(tmp_path):
    checks = checked(healthy(loss=lambda output, target: F.cross_entropy(output, target) / 0), tmp_path)
    assert failures(checks) == {"loss"}
    assert "`inf`" in checks["loss"].says


def test_a_loss_per_sample_is_named(tmp_path):
    checks = checked(healthy(loss=lambda output, target: F.cross_entropy(output, target, reduction="none")), tmp_path)
    assert "shape `(16,)`" in checks["loss"].says


def test_a_detached_loss_is_named(tmp_path):
    checks = checked(healthy(loss=lambda output, target: F.cross_entropy(output.detach(), target)), tmp_path)
    assert "has no gradient" in checks["loss"].says


def test_a_backward_pass_that_raises_is_named(tmp_path):
    def spoilt(output, target):
        score = output.exp()
        value = score.square().mean()
        score.zero_()
        return value

    checks = checked(healthy(loss=spoilt), tmp_path)
    assert failures(checks) == {"loss"}
    assert "the backward pass raises `RuntimeError" in checks["loss"].says


def test_a_loss_that_never_moves_is_named(tmp_path):
    checks = checked(healthy(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.0)), tmp_path)
    assert failures(checks) == {"learning"}
    assert "left the loss at" in checks["learning"].says


def test_a_loss_that_rises_is_named_with_its_values(tmp_path):
    checks = checked(
        healthy(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.05, maximize=True)), tmp_path
    )
    assert failures(checks) == {"learning"}
    assert "does not fall" in checks["learning"].says


def test_a_loss_that_falls_slowly_is_given_more_updates(tmp_path):
    checks = checked(healthy(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-4)), tmp_path)
    assert checks["learning"].ok
    quick = checked(healthy(), tmp_path)
    assert "in `20` updates" in quick["learning"].says


def test_with_little_data_or_little_time_nothing_is_held_against_a_model(tmp_path):
    backwards = lambda parameters: torch.optim.SGD(parameters, lr=0.05, maximize=True)
    little = checked(healthy(optimizer=backwards, train=lambda: rows(12), batch_size=4, val=lambda: rows(8)), tmp_path)
    assert little["learning"].ok is None
    assert "cannot tell" in little["learning"].says


def test_a_loss_that_explodes_is_named_with_the_update(tmp_path):
    workload = regression(
        model=lambda: nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e12),
    )
    checks = checked(workload, tmp_path)
    assert failures(checks) == {"learning"}
    assert "updates" in checks["learning"].says


def test_an_optimizer_of_other_parameters_is_named(tmp_path):
    checks = checked(healthy(optimizer=lambda _: torch.optim.SGD(mlp().parameters(), lr=0.1)), tmp_path)
    assert failures(checks) == {"model"}
    assert "holds `0` of the model's `4`" in checks["model"].says


def test_a_metric_that_raises_is_named(tmp_path):
    checks = checked(healthy(metric=lambda output, target: 1 / 0), tmp_path)
    assert failures(checks) == {"metric"}
    assert "ZeroDivisionError" in checks["metric"].says


def test_a_metric_that_is_no_number_is_named(tmp_path):
    assert "`nan`" in checked(healthy(metric=lambda output, target: float("nan")), tmp_path)["metric"].says


def test_no_metric_is_no_fault(tmp_path):
    workload = regression(model=lambda: nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)))
    checks = checked(workload, tmp_path)
    assert failures(checks) == set()
    assert checks["metric"].ok is None
    assert "`metric=`" in checks["metric"].hint


# Validation and last batch


def test_validation_data_that_do_not_fit_are_named(tmp_path):
    checks = checked(healthy(val=lambda: (torch.zeros(20, 5), torch.zeros(20, dtype=torch.int64))), tmp_path)
    assert failures(checks) == {"validation"}
    assert "validation batch `0` raises" in checks["validation"].says


def test_a_last_batch_of_one_that_cannot_be_normalised_is_named(tmp_path):
    model = lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    workload = healthy(model=model, train=lambda: rows(161), loader={"drop_last": False})
    checks = checked(workload, tmp_path)
    assert failures(checks) == {"last-batch"}
    assert "last training batch has `1` sample" in checks["last-batch"].says
    assert failures(checked(replace(workload, loader={"drop_last": True}), tmp_path)) == set()


def test_a_last_batch_of_one_whose_dimension_is_lost_is_named(tmp_path):
    class Squeezing(nn.Sequential):
        def forward(self, x):
            return super().forward(x).squeeze()

    inputs, _ = rows(161)
    workload = regression(
        model=lambda: Squeezing(nn.Linear(6, 1)),
        train=lambda: (inputs, inputs.sum(1)),
        val=lambda: (inputs[:17], inputs[:17].sum(1)),
    )
    checks = checked(workload, tmp_path)
    assert failures(checks) == {"last-batch"}
    assert "gives an output of shape `()`" in checks["last-batch"].says


# Checkpoint


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    checks = checked(healthy(), tmp_path / "file" / "runs")
    assert failures(checks) == {"checkpoint"}
    assert f"`{tmp_path / 'file' / 'runs' / 'smoke.pt'}`" in checks["checkpoint"].says


def test_state_that_a_checkpoint_misses_is_named(tmp_path):
    class Forgetful(nn.Linear):
        def __init__(self):
            super().__init__(6, 4)
            self.scale = torch.rand(4) * 3  # no buffer: never saved

        def forward(self, x):
            return super().forward(x) * self.scale

    checks = checked(healthy(model=Forgetful), tmp_path)
    assert failures(checks) == {"checkpoint"}
    assert "`register_buffer`" in checks["checkpoint"].hint


def test_a_model_of_chance_passes(tmp_path):
    model = lambda: nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.3), nn.ReLU(), nn.Linear(32, 4))
    assert failures(checked(healthy(model=model), tmp_path)) == set()


# Time


def test_when_the_budget_is_spent_what_remains_is_said_to_be_unchecked(tmp_path):
    seconds = itertools.count(step=25.0)
    checks = checked(healthy(), tmp_path, clock=lambda: next(seconds))
    assert checks["checkpoint"].ok is None
    assert checks["checkpoint"].says == "not checked: the budget of `60` s is spent"
    assert failures(checks) == set()


def test_each_check_is_announced_before_it_begins(tmp_path):
    events = []
    checks = checked(healthy(), tmp_path, listener=events.append)
    assert [event.doing for event in events] == [*(f"smoke: {name}" for name in checks), "smoke"]
    assert events[-1].done == events[-1].total == len(CHECKS)
