"""The key that decides which numbers may be compared."""

import msgspec
import torch

from netdyno.measure.environment import describe, flags, identity


def test_two_looks_at_one_machine_have_one_id():
    first, second = describe("cpu", seed=3), describe("cpu", seed=3)
    assert first.id == second.id


def test_every_field_that_a_number_depends_on_changes_the_id():
    here = describe("cpu", seed=3)
    for name, value in (
        ("machine", "other"), ("processor", "other"), ("cores", 99), ("memory_bytes", 1), ("device", "cuda:7"),
        ("system", "other"), ("python", "other"), ("torch", "0.1"), ("threads", 99), ("seed", 4), ("driver", "other"),
        ("flags", {}), ("packages", {}),
    ):  # fmt: skip
        assert identity(msgspec.structs.replace(here, **{name: value})) != here.id, name


def test_the_time_and_the_build_text_do_not_change_the_id():
    here = describe("cpu", seed=3)
    assert identity(msgspec.structs.replace(here, taken_at="later", build="other", id="x")) == here.id


def test_switches_of_torch_are_in_the_flags():
    before = flags()["float32_matmul_precision"]
    try:
        torch.set_float32_matmul_precision("medium")
        assert flags()["float32_matmul_precision"] == "medium" != before
    finally:
        torch.set_float32_matmul_precision(before)


def test_variables_that_change_speed_are_in_the_flags_and_others_are_not(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setenv("A_SECRET", "of mine")
    assert flags()["OMP_WAIT_POLICY"] == "passive"
    assert "A_SECRET" not in flags()


def test_packages_have_their_exact_versions():
    assert describe().packages["torch"].startswith(torch.__version__.split("+")[0])


def test_the_description_survives_being_written_and_read():
    here = describe("cpu", seed=1)
    assert msgspec.json.decode(msgspec.json.encode(here), type=type(here)) == here
