import json
import subprocess
import sys
from pathlib import Path

import pytest

from netdyno.errors import NetdynoError, TargetError
from netdyno.knobs._base import catalogue
from netdyno.learning import template
from netdyno.records.trial import Change
from netdyno.targets import workload

WORK = '''"""Points of three clouds."""

import torch
from torch import nn

from netdyno import Tolerance, Workload

COUNT = 120  # a remark that stays


def clouds(seed):
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(COUNT) % 3
    return torch.eye(3)[labels] * 2 + torch.randn(COUNT, 3, generator=draw), labels


Clouds = Workload(
    model=lambda: nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3)),
    train=lambda: clouds(0),
    val=lambda: clouds(1),
    metric=lambda output, target: (output.argmax(1) == target).float().mean(),
    batch_size=24,
    epochs=3,
    allowed=Tolerance(loss=0.1),
)
'''
LINE = '''"""A line."""

import torch
from netdyno import Workload

def train():
    x = torch.linspace(-1, 1, 96)[:, None]
    return x, 2 * x

Line = Workload(model=lambda: torch.nn.Linear(1, 1), train=train, epochs=2)
'''


def change(knob, **settings):
    return Change(id=knob, settings=settings)


RECIPES = {
    "none": (),
    "optim": (
        change("learning-rate", factor=2.0), change("schedule", course="cosine", peak=1.0),
        change("warmup", form="share", amount=0.1), change("clip", rule="norm", value=1.0),
        change("weight-decay", value=0.01), change("batch-size", size=12, scaling="sqrt", equal="epochs"),
        change("early-stopping", patience=3, min_delta=1e-4), change("momentum", value=0.8),
    ),
    "losses": (
        change("label-smoothing", smoothing=0.1), change("dropout", share=0.1), change("initialisation", scheme="he"),
        change("mixup", alpha=0.2), change("activation", kind="SiLU"), change("weighted-sampler", power=1.0),
        change("optimizer", name="nesterov", rate=0.05), change("schedule", course="one-cycle", peak=1.0),
    ),
    "observed": (change("clip", rule="percentile", value=90.0), change("focal-loss", gamma=2.0, balanced=True), change("schedule", course="plateau", peak=1.0)),
}  # fmt: skip


@pytest.fixture
def work(tmp_path):
    (tmp_path / "work.py").write_text(WORK)
    return f"{tmp_path / 'work.py'}:Clouds"


def alone(script: Path, *arguments):
    """Run a script where netdyno cannot be imported."""
    code = f"import sys, runpy; sys.modules['netdyno'] = None; sys.argv = {[str(script), *arguments]!r}; runpy.run_path({str(script)!r}, run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code], cwd=script.parent, capture_output=True, text=True, check=False
    )  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_script_runs_without_netdyno_and_our_own_lint_finds_nothing(tmp_path, work, recipe):
    script = tmp_path / "train.py"
    script.write_text(template.write(work, RECIPES[recipe]).text)
    found = alone(script, "--epochs", "2", "--device", "cpu")
    assert found.returncode == 0, found.stderr
    assert "epoch 2: loss" in found.stdout
    assert "best: validation" in found.stdout
    assert findings_in(script) == []


def findings_in(script):
    """What our own lint says of it."""
    command = [sys.executable, "-m", "netdyno", "lint", str(script), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)["found"]


def test_it_learns_and_goes_on_where_it_was_cut_short(tmp_path, work):
    script = tmp_path / "train.py"
    script.write_text(template.write(work, RECIPES["optim"]).text)
    whole = alone(script, "--epochs", "6", "--device", "cpu", "--folder", ".").stdout
    lines = [line for line in whole.splitlines() if line.startswith("epoch")]
    assert float(lines[-1].split("score ")[1].split(",")[0]) > 0.6
    # A run of six epochs that is killed after its third: its checkpoint is that of the third.
    text = script.read_text().replace(
        "        save(last, state)\n",
        "        save(last, state)\n        if epoch == 2 and not options.resume:\n            os._exit(9)\n",
    )
    script.write_text(text)
    assert alone(script, "--epochs", "6", "--device", "cpu", "--folder", ".").returncode == 9
    again = alone(script, "--epochs", "6", "--device", "cpu", "--folder", ".", "--resume").stdout
    resumed = [line for line in again.splitlines() if line.startswith("epoch")]
    assert [without_time(line) for line in resumed] == [without_time(line) for line in lines[3:]]


def without_time(line):
    return line.rpartition(",")[0]


def test_regression_and_a_workload_without_validation(tmp_path):
    (tmp_path / "line.py").write_text(LINE)
    script = tmp_path / "train.py"
    script.write_text(template.write(f"{tmp_path / 'line.py'}:Line").text)
    found = alone(script, "--device", "cpu")
    assert found.returncode == 0, found.stderr
    assert "F.mse_loss" in script.read_text()


def test_comments_stay_and_the_declaration_goes(work):
    text = template.write(work).text
    assert "# a remark that stays" in text
    assert "Workload(" not in text
    assert "import netdyno" not in text
    assert "from netdyno" not in text


def test_what_cannot_be_written_is_said_in_the_script_and_beside_it(work):
    made = template.write(work, (change("residual", form="v1"),))
    assert made.left_out
    assert "residual" in made.text.partition('"""')[2].partition('"""')[0]


def test_every_knob_is_written_or_said_aloud(work):
    """No knob of the room is dropped in silence."""
    for name in catalogue():
        recipe = (change(name, **_defaults(name)),)
        made = template.write(work, recipe)
        assert bool(made.left_out) == (name not in template.KNOWN)
        assert name in made.text


def _defaults(name):
    import dataclasses

    return {field.name: getattr(catalogue()[name](), field.name) for field in dataclasses.fields(catalogue()[name])}


def test_two_losses_in_one_recipe_are_refused():
    with pytest.raises(NetdynoError, match="two losses"):
        template.write(
            "garage:digits", (change("label-smoothing", smoothing=0.1), change("focal-loss", gamma=2.0, balanced=False))
        )


def test_what_leans_on_parts_of_netdyno_is_refused_in_three_lines():
    with pytest.raises(TargetError, match="cannot write a script from `tiny`"):
        template.write("garage:tiny")


def test_a_workload_made_by_a_function_is_refused_with_the_way_to_declare_it(tmp_path):
    (tmp_path / "made.py").write_text(WORK.replace("Clouds = Workload(", "def Clouds():\n  return Workload("))
    workload._EXECUTED.clear()
    with pytest.raises(TargetError, match="calls no `Workload"):
        template.write(f"{tmp_path / 'made.py'}:Clouds")


def test_of_several_workloads_the_one_that_was_named_is_written(tmp_path):
    other = "\nOther = Workload(model=lambda: nn.Linear(3, 3), train=lambda: clouds(5), epochs=1, batch_size=7)\n"
    (tmp_path / "two.py").write_text(WORK + other + "\nif __name__ == '__main__':\n    print(Clouds)\n")
    text = template.write(f"{tmp_path / 'two.py'}:Other").text
    assert "BATCH_SIZE = 7" in text
    assert "print(Clouds)" not in text


def test_names_that_the_users_file_has_too_stay_the_users(tmp_path):
    file = tmp_path / "named.py"
    file.write_text(
        WORK.replace("clouds", "data").replace("COUNT", "EPOCHS")
        + "\ndef forward(x, y):\n    return x\n\ndef save():\n    raise ValueError\n"
    )
    script = tmp_path / "train.py"
    script.write_text(template.write(f"{file}:Clouds").text)
    found = alone(script, "--epochs", "1", "--device", "cpu")
    assert found.returncode == 0, found.stderr


def test_settings_of_a_loader_that_need_workers_do_no_harm_without(tmp_path):
    file = tmp_path / "fed.py"
    file.write_text(
        WORK.replace(
            "batch_size=24", 'batch_size=24, loader={"num_workers": 2, "prefetch_factor": 4, "shuffle": False}'
        )
    )
    script = tmp_path / "train.py"
    script.write_text(template.write(f"{file}:Clouds").text)
    found = alone(script, "--epochs", "1", "--device", "cpu")
    assert found.returncode == 0, found.stderr
    assert '"shuffle": False' in script.read_text()


def test_without_a_study_the_script_says_that_its_course_is_not_proven(work):
    text = template.write(work).text
    assert "nobody has proven" in text
    assert (
        text.index("scaler.scale(loss).backward()")
        < text.index("scaler.unscale_(optimizer)")
        < text.index("clip_grad_norm_")
        < text.index("scaler.step(optimizer)")
        < text.index("scaler.update()")
        < text.index("scheduler.step()")
    )
