"""The accuracy guard on a release: the whole validation set, and outputs that a quality reads by name."""

import numpy as np
import torch

from netdyno.gates._specimens import Net, pictures, trained
from netdyno.shipping.accuracy import guard
from netdyno.shipping.subject import opened
from netdyno.targets.release import Release


def subject(model=None, rows=400, **declared):
    model = model or trained(Net())
    x, y = pictures(rows)
    parts = {"model": lambda: model, "example": lambda: x[:4], "validation": lambda: (x, y), "name": "specimen"}
    return opened("specimen:Specimen", Release(**{**parts, **declared}))


def test_the_module_against_itself_loses_nothing():
    made = subject()
    found = guard(made, made.answers, limit=0.02)
    assert (found.rows, found.lost, found.won) == (400, 0, 0)
    assert found.decision == "holds"


def test_every_row_of_the_validation_data_is_asked():
    made, asked = subject(rows=70), []

    def counted(arrays):
        asked.append(len(arrays[0]))
        return made.answers(arrays)

    guard(made, counted, limit=0.02)
    assert sum(asked) == 70


def test_a_candidate_that_forgets_a_class_is_broken():
    made = subject()

    def forgetful(arrays):
        (answer,) = made.answers(arrays)
        answer = answer.copy()
        answer[:, 3] = -1e9
        return (answer,)

    found = guard(made, forgetful, limit=0.005)
    assert found.decision == "broken"
    assert 0.2 < found.drop.middle < 0.3


def test_another_order_of_classes_is_named():
    made = subject()
    found = guard(made, lambda arrays: (made.answers(arrays)[0][:, [1, 0, 2, 3]],), limit=0.005)
    assert found.decision == "broken"
    assert "another order of classes (0 as 1, 1 as 0)" in found.says


def test_there_is_nothing_to_say_without_validation_data():
    made = subject(validation=None)
    assert guard(made, made.answers, limit=0.005) is None


def test_a_quality_that_reads_an_output_by_name_gets_the_form_of_the_module():
    class Named(Net):
        def forward(self, x):
            return {"embedding": x.flatten(1), "scores": super().forward(x), "note": "text"}

    model = Named()
    model.load_state_dict(trained(Net()).state_dict())
    made = subject(model.eval(), quality=lambda output, target: output["scores"].argmax(1) == target)
    found = guard(made, made.answers, limit=0.02)
    assert found.decision == "holds"
    shuffled = guard(made, lambda arrays: tuple(np.roll(one, 1, 0) for one in made.answers(arrays)), limit=0.02)
    assert shuffled.decision == "broken"


def test_a_module_of_a_fixed_number_of_rows_is_asked_for_just_that_many():
    class Fixed(Net):
        def forward(self, x):
            return super().forward(x).reshape(4, 4)

    model = Fixed()
    model.load_state_dict(trained(Net()).state_dict())
    made = subject(model.eval(), rows=90, dynamic=False)

    def padded(arrays):
        part = tuple(np.resize(array, (-(-len(array) // 4) * 4, *array.shape[1:])) for array in arrays)
        answers = [made.answers((part[0][at : at + 4],))[0] for at in range(0, len(part[0]), 4)]
        return (np.concatenate(answers)[: len(arrays[0])],)

    assert guard(made, padded, limit=0.1).lost == 0


def test_a_regression_is_judged_by_its_squared_error():
    line = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 1)).eval()
    x, _ = pictures(300)
    y = line(x).detach() + 0.1 * torch.randn(300, 1, generator=torch.Generator().manual_seed(0))
    made = subject(line, validation=lambda: (x, y))
    assert guard(made, made.answers, limit=0.005).decision == "holds"
    assert guard(made, lambda arrays: (made.answers(arrays)[0] + 0.5,), limit=0.005).decision == "broken"
