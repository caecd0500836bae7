"""What is said of the rows that a model is fed, from calls that a test makes by hand."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from netdyno.aboard.vitals import _samples_relations as relations
from netdyno.aboard.vitals import _samples_rows as rows
from netdyno.aboard.vitals._base import Call, LossCall
from netdyno.aboard.vitals.samples import Samples


class Model:
    training = True


class Run:
    """A training that a test plays: calls, losses, backward passes."""

    def __init__(self) -> None:
        self.watch = SimpleNamespace(updates=0, whole=True, affords=lambda: True)
        self.vital = Samples(self.watch)  # type: ignore[arg-type]
        self.model = Model()

    def trains(self, x: Any, y: Any, loss: float = 1.0) -> None:
        """One update."""
        out = torch.nn.functional.one_hot(y, 10).float() if not y.is_floating_point() else y.clone()
        self.vital.every_called(Call(self.model, (x,), {}, out, True, sys._getframe()))
        name = "mse_loss" if y.is_floating_point() else "cross_entropy"
        result = torch.tensor(loss)
        self.vital.every_loss(LossCall(name, (out, y), {}, result, True, sys._getframe()))
        self.vital.every_backward(result)
        self.watch.updates += 1

    def evaluates(self, x: Any, y: Any) -> None:
        """One call without gradients."""
        out = torch.nn.functional.one_hot(y, 10).float()
        self.vital.every_called(Call(self.model, (x,), {}, out, False, sys._getframe()))
        self.vital.every_loss(LossCall("cross_entropy", (out, y), {}, torch.tensor(1.0), False, sys._getframe()))

    def told(self) -> dict[str, Any]:
        """What the vital says at the end."""
        self.vital.over()
        told = self.vital.summary()
        assert told is not None
        return told


def clusters(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows around ten centres, with the centre as their label."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(10, 16, generator=torch.Generator().manual_seed(7))
    y = torch.randint(0, 10, (count,), generator=generator)
    return centres[y] + 0.1 * torch.randn(count, 16, generator=generator), y


def test_equal_rows_have_equal_prints_whatever_stands_beside_them() -> None:
    x, _ = clusters(300)
    assert torch.equal(rows.prints(x)[100:110], rows.prints(x[100:110].clone()))
    assert len(rows.prints(x).unique()) == 300


def test_zero_and_minus_zero_are_one_number() -> None:
    assert rows.prints(torch.tensor([[0.0, 1.0]])) == rows.prints(torch.tensor([[-0.0, 1.0]]))


def test_a_training_on_clean_rows_has_nothing_to_tell() -> None:
    run, (x, y), (held, labels) = Run(), clusters(400), clusters(150, seed=1)
    for b in torch.arange(400).split(50):
        run.trains(x[b], y[b])
    run.evaluates(held, labels)
    told = run.told()
    assert told["train_distinct"] == 400
    assert told["eval_distinct"] == 150
    assert told["overlap"] == 0
    assert told["neighbours"] > 0.9
    assert told["conflicts"] == 0
    assert told["drifted_share"] < 0.1


def test_training_rows_in_evaluation_are_counted() -> None:
    run, (x, y), (held, labels) = Run(), clusters(400), clusters(100, seed=1)
    for b in torch.arange(400).split(50):
        run.trains(x[b], y[b])
    run.evaluates(torch.cat([held, x[:40]]), torch.cat([labels, y[:40]]))
    assert run.told()["overlap"] == 40


def test_the_training_set_evaluated_again_is_no_overlap() -> None:
    run, (x, y) = Run(), clusters(400)
    for b in torch.arange(400).split(50):
        run.trains(x[b], y[b])
    run.evaluates(x, y)
    told = run.told()
    assert told["eval_rows"] == 0
    assert not told.get("overlap")


def test_a_row_with_nan_is_found_with_its_feature_and_update() -> None:
    run, (x, y) = Run(), clusters(400)
    x[120, 5] = float("nan")
    for b in torch.arange(400).split(50):
        run.trains(x[b], y[b], loss=float("nan") if 120 in b.tolist() else 1.0)
    told = run.told()
    assert (told["bad_rows"], told["bad_feature"], told["bad_first"]) == (1, 5, 2)
    assert told["losses_lost"] == 1


def test_what_was_written_to_after_the_call_is_left_out() -> None:
    run, (x, y) = Run(), clusters(200)
    first, second = x[:100].clone(), x[100:].clone()
    run.trains(first, y[:100])
    run.trains(second, y[100:])
    first.mul_(2.0)
    assert run.told()["train_rows"] == 100


def test_labels_of_other_rows_agree_with_neighbours_by_chance_only() -> None:
    run, (x, y) = Run(), clusters(600)
    mixed = y[torch.randperm(600, generator=torch.Generator().manual_seed(3))]
    for b in torch.arange(600).split(50):
        run.trains(x[b], mixed[b])
    told = run.told()
    assert told["neighbours"] < told["chance"] + 0.08


def test_batches_of_one_class_each_have_no_variety() -> None:
    run, (x, y) = Run(), clusters(500)
    order = y.argsort()
    for b in order.split(10):
        run.trains(x[b], y[b])
    assert run.told()["batch_spread"] < 0.3


def test_a_batch_far_outside_is_seen_to_come_back() -> None:
    run, (x, y) = Run(), clusters(400)
    x[60:64] *= 1e4
    for _ in range(3):
        for b in torch.arange(400).split(25):
            run.trains(x[b], y[b], loss=500.0 if 60 in b.tolist() else 1.0)
    told = run.told()
    assert told["spike_times"] == told["spike_rounds"] == 3
    assert told["spike_loss"] == pytest.approx(500.0)


def test_equal_rows_with_two_labels_are_counted() -> None:
    run, (x, y) = Run(), clusters(200)
    for b in torch.arange(200).split(50):
        run.trains(x[b], y[b])
    run.trains(x[:30], (y[:30] + 1) % 10)
    assert run.told()["conflicts"] == 30


def test_two_columns_that_changed_places_are_named() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(800, 6, generator=generator)
    x[:, 1] = x[:, 1].exp()
    x[:, 4] = 3 * x[:, 4] - 2
    held = torch.randn(300, 6, generator=generator)
    held[:, 1] = held[:, 1].exp()
    held[:, 4] = 3 * held[:, 4] - 2
    assert "swapped" not in relations.drift(x, held)
    assert relations.drift(x, held[:, [0, 4, 2, 3, 1, 5]])["swapped"] == [1, 4]


def test_a_scale_on_one_side_is_one_factor_for_all_features() -> None:
    x = torch.randn(800, 6, generator=torch.Generator().manual_seed(0))
    held = 3 * torch.randn(300, 6, generator=torch.Generator().manual_seed(1))
    told = relations.drift(x, held)
    assert told["scale_ratio"] == pytest.approx(3.0, rel=0.1)
    assert told["standardised"] == "training"


def test_numbers_that_wrapped_leave_a_gap_in_the_middle() -> None:
    pixels = torch.randint(0, 17, (300, 64), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    wrapped = (pixels - 5).float() / 255
    assert relations.ranges(wrapped)["wrapped"] > 0.2
    assert relations.ranges((pixels.float() - 5) / 255).get("wrapped") is None


def test_pixels_divided_twice_end_at_one_step_of_their_range() -> None:
    pixels = torch.randint(0, 17, (300, 64), generator=torch.Generator().manual_seed(0)).float()
    told = relations.ranges(pixels / 16 / 16)
    assert told["levels"] == 16
    assert told["high"] == pytest.approx(1 / 16)


def test_a_feature_made_of_the_target_explains_all_of_it() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 6, generator=generator)
    y = (x[:, :5].sum(1)).double()
    x[:, 5] = 2 * y.float() + 0.01 * torch.randn(400, generator=generator)
    told = relations.alone(x, y, None, None, {"task": "numbers"})
    assert told["best_feature"] == 5
    assert told["alone"] > 0.99
    assert told["second"] < 0.5


def test_padding_is_counted_behind_the_last_other_id() -> None:
    x = torch.zeros(4, 10, dtype=torch.long)
    x[:, :3] = 5
    assert rows._pads(x) == (0, pytest.approx(0.7))


def test_several_calls_to_one_backward_pass_are_joint() -> None:
    run, (x, _) = Run(), clusters(100)
    for _ in range(2):
        run.vital.every_called(Call(run.model, (x,), {}, x, True, sys._getframe()))
    run.vital.every_backward(torch.tensor(1.0))
    assert run.told()["joint"]


def test_chance_is_left_as_it_was() -> None:
    run, (x, y) = Run(), clusters(200)
    before = torch.random.get_rng_state()
    for b in torch.arange(200).split(50):
        run.trains(x[b], y[b])
    run.told()
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_frozen_model_on_the_line_of_a_head_that_trains_is_no_evaluation():
    run, frozen = Run(), Model()
    frozen.training = False
    rows_of = torch.randn(8, 6)
    for _ in range(4):
        for model, x in ((frozen, rows_of), (run.model, rows_of + 1)):
            run.vital.every_called(Call(model, (x,), {}, x, True, sys._getframe()))
        run.vital.every_backward(torch.tensor(1.0))
        run.watch.updates += 1
    assert not run.vital.book.rows["evaluation"]
    assert run.vital.book.rows["training"] == 64


def test_values_that_were_rounded_to_half_precision_have_not_moved():
    x = torch.randn(900, 5).double()
    assert float(relations._gaps(x, x.half().double()).max()) < 0.01
    assert float(relations._gaps(x, x + 1).min()) > 0.3


def test_a_head_in_a_new_line_brings_the_model_that_feeds_it_along():
    run, body, head = Run(), Model(), Model()
    x, y = torch.randn(8, 6), torch.arange(8)
    run.trains(x, y)
    run.vital.every_called(Call(body, (x,), {}, x, True, sys._getframe()))
    run.vital.every_called(Call(head, (x.clone().requires_grad_(),), {}, x, True, sys._getframe()))
    run.vital.every_backward(torch.tensor(1.0))
    assert not run.vital.book.rows["evaluation"]


def test_evaluation_is_compared_in_a_long_run_too():
    run, x = Run(), torch.randn(200, 6)
    y = torch.randint(0, 10, (200,))
    for _ in range(3):
        run.trains(x, y)
    run.watch.whole = False
    run.trains(x, y)
    run.evaluates(x + 5, y)
    told = run.told()
    assert told["drifted_share"] == 1.0
    assert told["eval_round"] == 200
