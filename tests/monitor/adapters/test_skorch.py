import pickle

import pytest
import torch

from monitor.adapters.proof import BATCH, data, journal, losses, network, same

skorch = pytest.importorskip("skorch", reason="skorch is not installed")

EPOCHS, STEPS = 3, 5  # a fifth of the rows is held out


class Breaks(torch.nn.Module):
    def __init__(self, after=None):
        super().__init__()
        self.network = network()
        self.left = after

    def forward(self, x):
        if self.left is not None and self.training:
            self.left -= 1
            if self.left < 0:
                raise ZeroDivisionError("on purpose")
        return self.network(x)


def net(*, callbacks=(), after=None):
    return skorch.NeuralNetClassifier(
        Breaks(after), criterion=torch.nn.CrossEntropyLoss, optimizer=torch.optim.SGD, lr=0.1, batch_size=BATCH,
        max_epochs=EPOCHS, callbacks=list(callbacks), verbose=0, iterator_train__shuffle=True,
    )  # fmt: skip


def fitted(**how):
    found = net(**how)
    torch.manual_seed(1)
    x, y = data()
    return found.fit(x.numpy(), y.numpy())


def callback(store, **wishes):
    from netdyno.monitor.adapters.skorch import NetdynoCallback

    return NetdynoCallback(run="digits", store=store, quiet=True, **wishes)


def test_a_fit_is_the_same_to_the_last_bit(tmp_path):
    assert same(fitted().module_, fitted(callbacks=[callback(tmp_path)]).module_)


def test_steps_losses_results_and_settings_are_in_the_journal(tmp_path):
    found = fitted(callbacks=[callback(tmp_path, stage="arch")])
    run = journal(tmp_path)
    assert run.end["reason"] == "ended"
    assert run.end["updates"] == losses(tmp_path) == EPOCHS * STEPS
    assert run.series("evaluation/loss").values.tolist() == found.history[:, "valid_loss"]
    assert run.series("evaluation/acc").values.tolist() == found.history[:, "valid_acc"]
    assert run.info.settings == {"lr": 0.1, "batch_size": BATCH, "max_epochs": EPOCHS}
    assert run.info.tags == {"stage": "arch"}


def test_what_raises_is_in_the_journal_and_raises(tmp_path):
    with pytest.raises(ZeroDivisionError):
        fitted(callbacks=[callback(tmp_path)], after=7)
    run = journal(tmp_path)
    assert run.end["reason"] == "failed"
    assert "on purpose" in run.end["says"]
    assert run.end["updates"] == 7


def test_a_net_can_be_cloned_and_kept(tmp_path):
    from sklearn.base import clone

    found = fitted(callbacks=[callback(tmp_path)])
    assert "fit_loop" not in vars(found)
    assert pickle.loads(pickle.dumps(found)).callbacks[0].run == "digits"
    assert clone(found).callbacks[0].store == tmp_path
