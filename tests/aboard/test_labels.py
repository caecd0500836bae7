"""What labels of a few batches show."""

import pytest
import torch

from netdyno.aboard.labels import Labels


def seen(*batches):
    labels = Labels()
    for batch in batches:
        labels.look(batch)
    return labels


def batch(labels):
    return [torch.zeros(len(labels), 3), torch.tensor(labels)]


def test_mixed_classes_vary():
    assert seen(batch([0, 1] * 8)).vary is True


def test_one_class_after_the_other_is_sorted():
    assert seen(batch([0] * 16), batch([0] * 16), batch([1] * 16)).vary is False


def test_one_class_alone_says_nothing():
    assert seen(batch([0] * 16), batch([0] * 16)).vary is None


def test_a_tiny_batch_says_nothing():
    assert seen(batch([0, 0]), batch([1, 1])).vary is None


@pytest.mark.parametrize(
    "other", [torch.zeros(16), [torch.zeros(16, 3), torch.rand(16)], [torch.zeros(16)] * 3, "text", None]
)
def test_what_holds_no_classes_says_nothing(other):
    assert seen(other, other).vary is None


def test_targets_of_the_form_of_the_inputs_are_a_sequence():
    tokens = torch.zeros(4, 8, dtype=torch.long)
    assert seen([tokens, tokens]).sequence
    assert seen({"input_ids": tokens, "labels": tokens}).sequence
    assert not seen(batch([0, 1] * 8)).sequence


def test_the_look_is_over_once_the_answer_is_known():
    labels = seen(batch([0, 1] * 8), batch([0, 1] * 8))
    assert labels.looks == 1
