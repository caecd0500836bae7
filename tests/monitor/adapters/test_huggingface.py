import pytest
import torch

from monitor.adapters.proof import BATCH, data, journal, losses, network, same

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

STEPS = 18


class Judged(torch.nn.Module):
    """A model as a Trainer wants it: it gives its loss."""

    def __init__(self, breaks_at=None):
        super().__init__()
        self.network = network()
        self.breaks_at = breaks_at
        self.calls = 0

    def forward(self, x, labels=None):
        self.calls += self.training
        if self.calls - 1 == self.breaks_at:
            raise ZeroDivisionError("on purpose")
        logits = self.network(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def train(folder, *, callbacks=(), accumulate=1, **how):
    rows = [{"x": x, "labels": y} for x, y in zip(*data(), strict=True)]
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=0.01, report_to="none", use_cpu=True,
        eval_strategy="steps", eval_steps=6, save_strategy="no", disable_tqdm=True, gradient_accumulation_steps=accumulate,
    )  # fmt: skip
    model = Judged(**how)
    trainer = transformers.Trainer(
        model, arguments, train_dataset=rows, eval_dataset=rows[:32], callbacks=list(callbacks),
        compute_metrics=lambda told: {"accuracy": float((told.predictions.argmax(1) == told.label_ids).mean())},
    )  # fmt: skip
    trainer.train()
    return model


def callback(store, **wishes):
    from netdyno.monitor.adapters.huggingface import NetdynoCallback

    return NetdynoCallback(run="sentiment", store=store, quiet=True, **wishes)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_training_is_the_same_to_the_last_bit(tmp_path, accumulate):
    plain = train(tmp_path, accumulate=accumulate)
    assert same(plain, train(tmp_path, callbacks=[callback(tmp_path / "store")], accumulate=accumulate))
    assert losses(tmp_path / "store") == STEPS


def test_steps_losses_results_and_settings_are_in_the_journal(tmp_path):
    train(tmp_path, callbacks=[callback(tmp_path, stage="data")])
    run = journal(tmp_path)
    assert run.end["reason"] == "ended"
    assert run.end["updates"] == losses(tmp_path) == STEPS
    assert run.series("evaluation/accuracy").updates.tolist() == [6, 12, 18]
    assert {name for name in run.names() if name.startswith("evaluation/")} == {
        "evaluation/accuracy",
        "evaluation/loss",
    }
    assert run.info.settings["learning_rate"] == 0.01
    assert run.info.settings["max_steps"] == STEPS
    assert run.info.tags == {"stage": "data"}


def test_what_raises_is_in_the_journal_and_raises(tmp_path):
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, callbacks=[callback(tmp_path)], breaks_at=7)
    run = journal(tmp_path)
    assert run.end["reason"] == "failed"
    assert "on purpose" in run.end["says"]
    assert run.end["updates"] == 7
