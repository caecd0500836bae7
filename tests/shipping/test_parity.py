"""The ladder of parity: what an export must not do, caught by the rung that is made for it."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from netdyno.gates._specimens import Net, pictures, trained
from netdyno.runtimes._base import checked
from netdyno.shipping.parity import BOUNDS, compared, counts, ladder, repeated, sqnr_db
from netdyno.shipping.subject import flat, opened
from netdyno.targets.release import Release


def subject(model, *, data=None, **declared):
    x, y = pictures() if data is None else data
    parts = {"model": lambda: model, "example": lambda: x[:8], "validation": lambda: (x, y), "name": "specimen"}
    return opened("specimen:Specimen", Release(**{**parts, **declared}))


def eager(made, model=None):
    """The module itself behind the checks that every exported artefact has."""
    model = model or made.model

    def call(arrays):
        with torch.inference_mode():
            return flat(model(*map(torch.from_numpy, arrays)))

    return checked(call, made.signature)


def traced(made, model, example):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eager(made, torch.jit.trace(model, example, check_trace=False))


def broken(rungs):
    return [rung.name for rung in rungs if rung.holds is False]


def test_the_module_itself_goes_up_the_whole_ladder():
    made = subject(trained(Net()))
    rungs = ladder(made, eager(made), sizes=(1, 2, 4, 8))
    assert not broken(rungs), rungs
    assert [rung.batch for rung in rungs if rung.name.endswith("at a time")] == [1, 2, 3, 4, 5, 7, 8]
    assert {"asked again", "zeros", "ten times as large", "other strides", "wrong inputs"} <= {
        rung.name for rung in rungs
    }
    assert all(rung.flips == 0 for rung in rungs if rung.flips is not None)
    assert all(rung.says for rung in rungs)


class Branching(Net):
    def forward(self, x):
        if x.mean() < 0.0:
            x = 0.5 * x
        return super().forward(x)


class Rowwise(nn.Module):
    """Decides by the row when rows come alone; the service asks one at a time."""

    def __init__(self):
        super().__init__()
        self.body = trained(Net())

    def forward(self, x):
        scale = torch.where(x.mean((1, 2, 3), keepdim=True) < 0.0, 0.2, 1.0)
        return self.body(x * scale)


def test_a_branch_that_the_trace_froze_is_caught_by_rows_of_the_other_side():
    model = Rowwise().eval()

    class Frozen(nn.Module):
        def forward(self, x):
            return model.body(x if x.mean() > 0 else 0.2 * x)

    made = subject(model)
    x = pictures()[0]
    above = x[x.mean((1, 2, 3)) > 0.05][:1]
    rungs = ladder(made, traced(made, Frozen().eval(), above))
    assert "1 at a time" in broken(rungs)


def test_a_trace_made_in_training_mode_is_caught():
    model = trained(Net())
    made = subject(model)
    awake = trained(Net()).train()
    awake.load_state_dict(model.state_dict())
    rungs = ladder(made, traced(made, awake, pictures()[0][:8]))
    assert {"1 at a time", "asked again"} <= set(broken(rungs))


def test_a_number_of_rows_that_was_baked_in_is_caught():
    class Baked(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = trained(Net())

        def forward(self, x):
            return self.body(x).reshape(8, 4)

    made = subject(trained(Net()))
    rungs = ladder(made, eager(made, Baked().eval()), sizes=(8,))
    assert "1 at a time" in broken(rungs)
    assert "8 at a time" not in broken(rungs)


def test_a_squeezed_batch_of_one_is_caught():
    model = trained(Net())
    made = subject(model)
    squeezed = trained(Net(lambda x: x.squeeze()))
    rungs = ladder(made, eager(made, squeezed))
    assert broken(rungs)[0] == "1 at a time"
    assert "shape" in rungs[0].says


def test_garbage_for_other_strides_is_caught_as_an_aot_inductor_package_without_checks_gives_it():
    made = subject(trained(Net()))
    safe = eager(made)

    def trusting(arrays):
        """Reads the memory as if it lay in rows."""
        return safe(tuple(np.frombuffer(array.tobytes("A"), array.dtype).reshape(array.shape) for array in arrays))

    rungs = ladder(made, trusting)
    assert "other strides" in broken(rungs)


def test_what_answers_wrong_inputs_is_caught():
    made = subject(trained(nn.Sequential(nn.Flatten(), nn.Linear(64, 4))))

    def trusting(arrays):
        array = arrays[0].astype(np.float32).ravel()
        filled = np.resize(array, (len(arrays[0]), 1, 8, 8)) if array.size else np.zeros((0, 1, 8, 8), np.float32)
        return made.answers((filled,))

    rung = next(rung for rung in ladder(made, trusting) if rung.name == "wrong inputs")
    assert rung.holds is False
    assert "float64" in rung.says


def test_a_wrong_request_that_leaves_its_mark_is_caught():
    made = subject(trained(Net()))
    whole, ended = eager(made), []

    def fragile(arrays):
        if ended:
            raise RuntimeError("its process ended")
        try:
            return whole(arrays)
        except ValueError:
            ended.append(True)
            raise

    rung = next(rung for rung in ladder(made, fragile) if rung.name == "wrong inputs")
    assert rung.holds is False
    assert "ends it" in rung.says


def test_infinity_where_the_module_has_a_number_is_caught_on_extreme_inputs():
    made = subject(trained(Net()))
    safe = eager(made)

    def overflowing(arrays):
        (answer,) = safe(arrays)
        return (np.where(np.abs(arrays[0]).max() > 100, np.inf, answer).astype(np.float32),)

    assert broken(ladder(made, overflowing)) == ["a large constant"]


def test_two_outputs_two_inputs_and_whole_numbers_go_up_the_ladder():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(9, 4), nn.Linear(5, 3)

        def forward(self, ids, x):
            scores = self.head(torch.cat((self.table(ids).mean(1), x), 1))
            return {"scores": scores, "best": scores.argmax(1)}

    ids, x = torch.arange(60).reshape(20, 3) % 9, torch.randn(20, 1, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    model = Two().eval()
    release = Release(model=lambda: model, example=lambda: (ids[:4], x[:4]), calibration=lambda: (ids, x, ids[:, 0]))
    made = opened("specimen:Two", release)
    rungs = ladder(made, eager(made), sizes=(1, 4))
    assert not broken(rungs), rungs


def decided(share):
    """Decisions of 200 rows as one-hot scores, of which a share is decided otherwise."""
    module = np.eye(4)[np.arange(200) % 4]
    other = module.copy()
    other[: int(200 * share)] = np.roll(other[: int(200 * share)], 1, axis=1)
    return module, other


@pytest.mark.parametrize(("share", "holds"), [(0.0, True), (0.02, True), (0.12, False), (0.4, False)])
def test_of_int8_only_ruin_is_judged(share, holds):
    module, other = decided(share)
    rung = compared("rows", (module,), (other,), precision="int8", batch=1)
    assert rung.flips == pytest.approx(share)
    assert rung.holds is holds


def test_little_signal_that_changes_no_decision_is_left_to_accuracy_and_many_changed_decisions_are_not():
    module, _ = decided(0.0)
    louder = compared("rows", (module,), (1.5 * module,), precision="int8", batch=1)
    assert louder.sqnr_db < 10
    assert louder.holds
    # Scores that differ in the third digit: little noise changes what is decided.
    near = np.array([5.0, 5.0, 0.0, 0.0]) + 1e-3 * module
    noisy = near + 0.05 * np.random.default_rng(0).normal(size=near.shape)
    close = compared("rows", (near,), (noisy,), precision="int8", batch=1)
    assert close.sqnr_db > 20
    assert close.holds is False


def test_random_rows_do_not_condemn_int8():
    noise = np.random.default_rng(0).normal(size=(50, 4))
    rung = compared("example", (noise,), (noise[::-1].copy(),), precision="int8", batch=1, real=False)
    assert rung.holds is None
    assert "no real rows" in rung.says


def test_reordered_sums_hold_in_fp32_and_the_noise_of_bf16_does_not():
    x = torch.randn(40, 64, generator=torch.Generator().manual_seed(0))
    w = torch.randn(64, 10, generator=torch.Generator().manual_seed(1))
    exact, other = (x @ w).numpy(), (x.flip(1) @ w.flip(0)).numpy()
    low = (x.bfloat16() @ w.bfloat16()).float().numpy()
    assert compared("rows", (exact,), (other,), precision="fp32", batch=1).holds
    assert compared("rows", (exact,), (low,), precision="fp32", batch=1).holds is False
    assert compared("rows", (exact,), (low,), precision="bf16", batch=1).holds


def test_other_shapes_counts_and_types_do_not_hold():
    one = np.ones((4, 2), np.float32)
    assert compared("rows", (one,), (one[:, :1],), precision="int8", batch=4).holds is False
    assert compared("rows", (one,), (one, one), precision="int8", batch=4).holds is False
    assert compared("rows", (one,), (one.astype(np.int64),), precision="int8", batch=4).holds is False


def test_planted_dropout_shows_in_repeated_requests_and_a_clean_module_has_no_mismatch_in_a_thousand():
    made = subject(trained(Net()))
    rows = (pictures()[0][:5].numpy(),)
    assert repeated(eager(made), rows, times=1000) == 0.0
    random = trained(Net(lambda x: nn.functional.dropout(x, 0.1)))
    assert repeated(eager(made, random), rows, times=200) > 0.1


def test_signal_to_noise_is_of_what_varies():
    spread = np.array([-1.0, 1.0] * 50)
    assert sqnr_db(spread + 1000, spread * 1.1 + 1000) == pytest.approx(20.0, abs=0.1)
    assert sqnr_db(spread, spread) == 300.0
    assert sqnr_db(np.ones(4), np.ones(4) * 1.01) == pytest.approx(40.0, abs=0.1)


def test_sizes_are_one_those_served_and_odd_ones():
    assert counts((2, 8), 48) == (1, 2, 3, 5, 7, 8)
    assert counts((64,), 4) == (1, 3)
    assert set(BOUNDS) == {"fp32", "bf16", "fp16", "int8"}


def test_of_a_module_that_is_random_on_purpose_only_what_it_refuses_is_judged():
    made = subject(trained(Net(lambda x: nn.functional.dropout(x, 0.2))))
    rungs = ladder(made, eager(made))
    assert not broken(rungs), rungs
    assert "random" in next(rung for rung in rungs if rung.name == "asked again").says
    assert next(rung for rung in rungs if rung.name == "wrong inputs").holds is not False
