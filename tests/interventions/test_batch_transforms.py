"""A transform for whole batches must be the same transform, with a draw for each sample."""

from dataclasses import replace

import pytest
import torch

from interventions.specimens import (
    IMAGES,
    PLAIN_IMAGES,
    STREAM,
    bytes_of,
    facts,
    flipped_batch,
    profile,
    stepped,
    timeline,
)
from netdyno.interventions.batch_transforms import BatchTransforms
from netdyno.interventions.tensor_slicing import TensorSlicing
from netdyno.records.measured import Split


def transformed_by(batch_augment, **changes):
    subject = IMAGES.fresh()
    return replace(subject, feed=replace(subject.feed, batch_augment=batch_augment, **changes))


def one_draw_for_all(batch):
    images, labels = batch
    return [images + 0.1 * torch.rand(1), labels]


def smaller(batch):
    images, labels = batch
    return [images[:, :, ::2], labels]


def fails(batch):
    raise RuntimeError("expected four dimensions")


def steady(batch):
    """No chance at all: allowed, for it is not our business to ask for some."""
    images, labels = batch
    return [images * 2, labels]


@pytest.mark.parametrize(
    ("subject", "because"),
    [
        (PLAIN_IMAGES.fresh(), "no random transform runs per sample"),
        (transformed_by(None), "`batch_augment=`"),
        (transformed_by(smaller), "(2, 1, 4, 8)"),
        (transformed_by(lambda batch: [batch[0].double(), batch[1]]), "float64"),
        (transformed_by(fails), "expected four dimensions"),
        (transformed_by(one_draw_for_all), "must draw for each"),
        (STREAM.fresh(), "`batch_augment=`"),
    ],
)
def test_what_is_another_transform_is_refused(subject, because):
    assert because in BatchTransforms().refuses(subject)


@pytest.mark.parametrize("batch_augment", [flipped_batch, steady])
def test_what_has_the_same_form_is_tried(batch_augment):
    assert BatchTransforms().refuses(transformed_by(batch_augment)) is None


def test_samples_come_plain_and_batches_are_transformed():
    with BatchTransforms().applied(IMAGES.fresh()) as subject:
        assert subject.feed.augment is None
        batches = subject.feed.epochs()
        batch = next(batches)
        assert not torch.equal(subject.fed(batch)[0], batch[0])
        batches.close()


def test_evaluation_sees_no_random_transform():
    with BatchTransforms().applied(IMAGES.fresh()) as subject:
        batch = subject.feed.collate([subject.feed.dataset[0]])
        assert torch.equal(subject.placed(batch)[0], batch[0])


def test_afterwards_samples_are_transformed_as_before():
    subject = IMAGES.fresh()
    with BatchTransforms().applied(subject) as other:
        stepped(other, 1)
    weights = bytes_of(subject.model)
    assert stepped(subject, 1).weights != weights
    assert subject.feed.augment is not None
    assert subject.augment == ()


def test_it_opens_the_way_to_slicing():
    assert TensorSlicing().refuses(IMAGES.fresh()) is not None
    with BatchTransforms().applied(IMAGES.fresh()) as subject:
        assert TensorSlicing().refuses(subject) is None
        with TensorSlicing().applied(subject) as sliced:
            assert stepped(sliced, 3, model=sliced.model).losses


@pytest.mark.parametrize(
    ("data", "augment", "share"),
    [
        (80, Split(running=0.5e-3), 0.4),
        (80, Split(running=1e-3), 0.8),
        (1, Split(running=1e-3), None),  # hardly anything is waited for
        (80, Split(), None),
    ],
)
def test_the_gain_is_a_part_of_what_the_transform_takes(data, augment, share):
    prediction = BatchTransforms().predicts(facts(timeline(data=data, forward=100 - data), profile(augment=augment)))
    assert (prediction.high if prediction else None) == (pytest.approx(0.95 * share) if share else None)
