import pytest
import torch

from monitor.adapters.proof import BATCH, data, journal, losses, network, same

STEPS, EPOCHS = 18, 3


def package(name):
    return pytest.importorskip(name, reason=f"{name} is not installed")


def module(pl, *, breaks_at=None):
    class Digits(pl.LightningModule):
        def __init__(self, lr=0.1):
            super().__init__()
            self.save_hyperparameters()
            self.network = network()

        def training_step(self, batch, at):
            if self.global_step == breaks_at:
                raise ZeroDivisionError("on purpose")
            loss = torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch, at):
            self.log("val_loss", torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1]))
            self.log("val_constant", 0.25)

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9)
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}

    return Digits()


def fit(pl, folder, *, callbacks=(), **how):
    model = module(pl, **how)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=BATCH, shuffle=True)
    trainer = pl.Trainer(
        max_epochs=EPOCHS, callbacks=list(callbacks), default_root_dir=folder, accelerator="cpu", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    torch.manual_seed(1)
    trainer.fit(model, loader, torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data(32)), batch_size=BATCH))
    return model


def callback(store, **wishes):
    from netdyno.monitor.adapters.lightning import NetdynoCallback

    return NetdynoCallback(run="digits", store=store, quiet=True, **wishes)


pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"]),
]


def test_a_fit_is_the_same_to_the_last_bit(tmp_path, name):
    pl = package(name)
    plain = fit(pl, tmp_path)
    assert same(plain, fit(pl, tmp_path, callbacks=[callback(tmp_path / "store")]))


def test_steps_losses_results_and_settings_are_in_the_journal(tmp_path, name):
    fit(package(name), tmp_path, callbacks=[callback(tmp_path, stage="optim", tags={"board": "a"})])
    run = journal(tmp_path)
    assert run.end["reason"] == "ended"
    assert run.end["updates"] == losses(tmp_path) == STEPS
    assert len(run.series("evaluation/val_loss").values) == EPOCHS
    assert run.series("evaluation/val_constant").values.tolist() == [0.25] * EPOCHS
    assert "evaluation/train_loss" not in run.names()
    assert run.info.settings["lr"] == 0.1
    assert run.info.settings["max_epochs"] == EPOCHS
    assert run.info.tags == {"board": "a", "stage": "optim"}


def test_what_raises_is_in_the_journal_and_raises(tmp_path, name):
    with pytest.raises(ZeroDivisionError):
        fit(package(name), tmp_path, callbacks=[callback(tmp_path)], breaks_at=7)
    run = journal(tmp_path)
    assert run.end["reason"] == "failed"
    assert "on purpose" in run.end["says"]
    assert run.end["updates"] == 7


def test_parts_are_found(tmp_path, name):
    package(name)
    seen = callback(tmp_path)
    subjects = []
    seen.on_train_epoch_end = lambda *_: subjects.append(seen.watch.subject)
    model = fit(package(name), tmp_path, callbacks=[seen])
    assert subjects[0].model is model
    assert type(subjects[0].optimizers[0]) is torch.optim.SGD
    assert type(subjects[0].schedulers[0]) is torch.optim.lr_scheduler.StepLR
    assert subjects[0].loader is not None
    assert seen.watch is None
