"""Which statement prepared what a line gives to a model."""

from pathlib import Path

from netdyno.aboard.frames import Line
from netdyno.aboard.origins import NOTHING, Origins, Source, origins

LOADED = """\
def load():
    images, labels = load_digits()
    images = images / 16
    x_train, x_val, y_train, y_val = train_test_split(images, labels)
    x_train = x_train - mean
    y_train[0] = 3
    train_set = TensorDataset(torch.tensor(x_train).float(), torch.from_numpy(y_train))
    return DataLoader(train_set, shuffle=True), DataLoader(TensorDataset(x_val, y_val))

def evaluate(model, loader):
    for x, y in loader:
        total += criterion(model(x), y).item()

train_loader, val_loader = load()
for step, (inputs, targets) in enumerate(train_loader):
    outputs = model(inputs.to(device))
evaluate(model, val_loader)
"""


def test_inputs_are_followed_through_loader_and_data_set_to_what_computed_them():
    assert Source(LOADED).origins(16) == Origins(inputs=5, targets=6, split=4, whole=3)


def test_a_functions_argument_is_what_it_was_called_with():
    assert Source(LOADED).origins(12) == Origins(inputs=4, targets=4, split=4, whole=3)


def test_batches_that_are_cut_by_hand_lead_to_the_whole():
    source = "x, y = make()\nx = x * 2\nfor at in range(9):\n    xb, yb = x[at:], y[at:]\n    loss = F.mse_loss(net(xb), yb)\n"
    found = Source(source).origins(5)
    assert (found.inputs, found.targets) == (2, 1)


def test_attributes_of_self_are_found_where_they_were_given():
    source = (
        "class Trainer:\n    def __init__(self, loader):\n        self.loader = loader\n"
        "    def fit(self):\n        for x, y in self.loader:\n            self.model(x)\n"
        "x = 2 * table\nTrainer(DataLoader(TensorDataset(x, y)))\n"
    )
    assert Source(source).origins(6).inputs == 7


def test_a_part_that_somebody_chose_is_made_there():
    assert Source("x = load_it(1)\nx = x[:20]\nmodel(x)\n").origins(3).inputs == 2


def test_a_name_that_feeds_itself_ends():
    assert Source("for _ in r:\n    x = model(x)\n").origins(2).inputs in (2, None)


def test_nothing_is_said_of_what_is_no_source(tmp_path: Path):
    broken = tmp_path / "broken.py"
    broken.write_text("def (", encoding="utf-8")
    assert origins(Line(str(broken), 1, "")) == NOTHING
    assert origins(Line(str(tmp_path / "gone.py"), 1, "")) == NOTHING
    assert origins(Line("<string>", 1, "")) == NOTHING


TRAINED = """\
def evaluate(model):
    for x in loader:
        model(x)

def train_epoch(model):
    for x in loader:
        model(x).backward()

def main():
    evaluate(model)
    for epoch in range(9):
        train_epoch(model)
        evaluate(model)
main()
"""


def test_the_outermost_loop_is_found_through_the_functions_that_hold_a_line():
    assert Source(TRAINED).loop(7) == 11
    assert Source(TRAINED).loop(14) is None


def test_an_evaluation_is_called_where_it_is_called_again_and_again():
    assert Source(TRAINED).caller(3) == 13
    assert Source(TRAINED).caller(14) is None


def test_functions_that_call_each_other_in_many_places_are_walked_once(tmp_path):
    calls = [f"def step{at}(x):\n" + "".join(f"    step{at + 1}(x)\n" for _ in range(12)) for at in range(40)]
    text = "".join(calls) + "def step40(x):\n    model(x)\n\nfor epoch in range(3):\n    step0(epoch)\n"
    source = Source(text)
    line = text.splitlines().index("    model(x)") + 1
    assert source.loop(line) == text.splitlines().index("for epoch in range(3):") + 1


def test_a_function_that_calls_itself_has_the_loop_around_its_first_call():
    source = Source("def walk(x):\n    model(x)\n    walk(x)\n\nfor epoch in range(3):\n    walk(epoch)\n")
    assert source.loop(2) == 5
