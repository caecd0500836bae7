import pytest
import torch

from knobs.specimens import images, numbered, pictured, small_net
from netdyno.knobs._base import catalogue, read, written
from netdyno.learning.run import setup_of, train, trained
from netdyno.targets.workload import Workload

OURS = (
    "activation", "augmentation", "batchnorm-momentum", "class-weights", "cut-mix", "cutout", "direction-distillation",
    "distillation", "dropout", "focal-loss", "initialisation", "label-smoothing", "mixup", "normalisation", "residual",
    "weighted-sampler",
)  # fmt: skip


def teacher():
    torch.manual_seed(9)
    return small_net()


UNEVEN = pictured(train=lambda: images(shares=[60, 30, 10]), teacher=teacher, augment=lambda sample: sample)


def setup(updates=400):
    return setup_of(UNEVEN, updates=updates)


@pytest.mark.parametrize("name", OURS)
def test_every_setting_trains_the_same_under_the_same_seed(name):
    knob = catalogue()[name]()
    assert knob.refuses(setup()) is None
    for option in knob.settings(setup()):
        assert option.refuses(setup()) is None
        assert read(written(option)) == option
        runs = [train(setup(updates=4), seed=3, recipe=(written(option),), stage=option.stage, knob=name) for _ in "ab"]
        assert runs[0].failed is None
        assert (runs[0].loss, runs[0].train_loss) == (runs[1].loss, runs[1].train_loss)


def test_all_of_them_go_together():
    recipe = tuple(
        written(catalogue()[name]()) for name in OURS if name not in {"class-weights", "direction-distillation"}
    )
    run = train(setup(updates=8), seed=1, recipe=recipe, stage="reg", knob="all")
    assert run.failed is None
    assert run.score is not None


def test_validation_keeps_the_loss_of_the_workload():
    # A gamma of 30 leaves nothing of the training loss; the validation loss is cross-entropy as before.
    (focused,) = [
        train(setup(updates=1), seed=1, recipe=(written(catalogue()["focal-loss"](gamma=30.0)),), stage="reg", knob="x")
    ]
    plain = train(setup(updates=1), seed=1, stage="reg", knob="x")
    assert focused.train_loss < plain.train_loss / 100
    assert focused.loss > plain.loss / 2


def test_a_weighted_sampler_feeds_the_run():
    seen = []

    def watching(model, batch):
        seen.append(batch[1])
        return model(batch[0])

    recipe = (written(catalogue()["weighted-sampler"](power=1.0)),)
    watched = setup_of(pictured(train=lambda: images(shares=[76, 10, 10]), forward=watching), updates=40)
    trained(watched, seed=1, recipe=recipe, stage="data", knob="weighted-sampler", evaluations=1)
    drawn = torch.cat([labels for labels in seen if len(labels) == 16][:40])
    # 640 draws: four deviations of a third are 0.075.
    assert torch.bincount(drawn).double().div(len(drawn)).tolist() == pytest.approx([1 / 3] * 3, abs=0.08)


def test_the_declared_teacher_is_built_once_and_left_as_it_is():
    made = []

    def built():
        made.append(teacher())
        return made[-1]

    taught = setup_of(pictured(teacher=built), updates=3)
    for seed in (1, 2):
        train(taught, seed=seed, recipe=(written(catalogue()["distillation"]()),), stage="reg", knob="distillation")
    assert len(made) == 1
    assert not made[0].training
    assert all(
        torch.equal(a, b) for a, b in zip(made[0].state_dict().values(), teacher().state_dict().values(), strict=True)
    )


class Stream(torch.utils.data.IterableDataset):
    """Images that can only be read in order."""

    def __iter__(self):
        return iter(zip(*images(), strict=True))


class Pairs(torch.nn.Module):
    """Takes two inputs by name and answers with a dictionary."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(6, 1)

    def forward(self, *, left, right):
        return {"answer": self.body(left + right)}


def dictionaries():
    return [{"left": torch.ones(6), "right": torch.ones(6), "target": torch.ones(1)} for _ in range(32)]


ODD = {
    "rows": numbered(),
    "stream": pictured(train=Stream),
    "dictionaries": Workload(
        name="pairs", model=Pairs, train=dictionaries, batch_size=8,
        forward=lambda model, batch: model(left=batch["left"], right=batch["right"]),
        loss=lambda output, batch: (output["answer"] - batch["target"]).square().mean(),
    ),
    "several targets": pictured(
        train=lambda: (images()[0], torch.zeros(96, 3)), val=lambda: (images()[0], torch.zeros(96, 3)),
        loss=torch.nn.functional.binary_cross_entropy_with_logits,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", OURS)
def test_every_knob_answers_in_words_or_trains_whatever_the_workload(name, kind):
    first = setup_of(ODD[kind], updates=400)
    for option in (catalogue()[name](), *catalogue()[name]().settings(first)):
        why = option.refuses(first)
        assert why is None or " " in why
        if why is None:
            run = train(
                setup_of(ODD[kind], updates=1), seed=1, recipe=(written(option),), stage=option.stage, knob=name
            )
            assert run.failed is None
