import torch
from torch import nn
from torch.nn import functional as F

from netdyno.learning.placement import misplaced


class Residual(nn.Module):
    """Convolution and norm beside a shortcut; dropout inside the branch, or on the sum."""

    def __init__(self, *, after_sum, projection=False):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(4, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Dropout(0.2)
        self.shortcut = nn.Sequential(nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4)) if projection else nn.Identity()
        self.after_sum = after_sum

    def forward(self, x):
        inside = F.relu(self.norm(self.conv(x)))
        if self.after_sum:
            return self.drop(F.relu(inside + self.shortcut(x)))
        return F.relu(self.drop(inside) + self.shortcut(x))


def told(model):
    return [outcome.finding.says for outcome in misplaced(model) if outcome.finding is not None]


def clear(model):
    return [outcome.state for outcome in misplaced(model)] == ["clear"]


def test_dropout_on_a_residual_sum_is_found():
    for projection in (False, True):
        (says,) = told(Residual(after_sum=True, projection=projection))
        assert "residual sum" in says
        assert "`drop`" in says


def test_dropout_inside_the_branch_is_left_alone():
    for projection in (False, True):
        assert clear(Residual(after_sum=False, projection=projection))


def test_dropout_before_a_batch_norm_is_found():
    direct = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.2), nn.BatchNorm1d(4), nn.Linear(4, 2))
    behind_a_layer = nn.Sequential(nn.ReLU(), nn.Dropout(0.2), nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    for model in (direct, behind_a_layer):
        (says,) = told(model)
        assert "before the batch norm `3`" in says


def test_dropout_behind_the_last_batch_norm_is_left_alone():
    assert clear(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4, 2)))
    assert clear(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.2), nn.LayerNorm(4), nn.Linear(4, 2)))


def test_dropout_between_convolutions_is_found():
    (says,) = told(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Dropout(0.2), nn.Conv2d(4, 4, 3)))
    assert "between convolutions" in says


def test_dropout_behind_convolutions_before_the_classifier_is_left_alone():
    assert clear(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, 2)))
    assert clear(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Dropout2d(0.2), nn.Conv2d(4, 4, 3)))


def test_dropout_called_as_a_function_is_seen():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.next = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3)

        def forward(self, x):
            return self.next(F.dropout(F.relu(self.conv(x)), 0.3, training=self.training))

    assert "between convolutions" in told(Net())[0]


def test_words_plus_positions_are_no_residual_sum():
    class Embedded(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(9, 4), nn.Embedding(9, 4)
            self.drop, self.head = nn.Dropout(0.1), nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.drop(self.words(x) + self.places(torch.arange(x.shape[1]))))

    assert clear(Embedded())


def test_two_layers_added_up_are_no_residual_sum():
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.drop = nn.Linear(4, 4), nn.Linear(4, 4), nn.Dropout(0.1)

        def forward(self, x):
            return self.drop(F.relu(self.one(x) + self.two(x)))

    assert clear(Wide())


def test_dropout_that_drops_nothing_is_left_alone():
    assert clear(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Dropout(0.0), nn.Conv2d(4, 4, 3)))


def test_a_model_that_cannot_be_traced_is_not_judged():
    class Branching(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    (outcome,) = misplaced(Branching())
    assert outcome.state == "skipped"
    assert "cannot be traced" in outcome.reason


def test_usual_models_are_left_alone():
    from netdyno.targets import garage

    for name in ("digits", "tiny", "transformer", "resnet"):
        assert not told(garage.workload(name).model())
