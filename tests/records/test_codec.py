"""What is written can be read, by this version and by later ones."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdyno.errors import StoreError
from netdyno.records import codec
from netdyno.records.measured import Interval
from netdyno.records.record import SCHEMA_VERSION, Record
from reports.specimens import SCHEMA, empty, every, golden, script_evidence, stored

NOW = f'"schema_version":{SCHEMA_VERSION}'.encode()


@pytest.mark.parametrize("name", sorted(every()))
def test_a_record_comes_back_equal(name):
    record = every()[name]
    assert codec.decode(codec.encode(record)) == record


def test_indented_json_holds_the_same_record():
    assert codec.decode(codec.encode(golden(), indent=2)) == golden()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_comes_back_to_the_last_bit(number):
    record = msgspec.structs.replace(empty(), wall_s=number)
    assert math.copysign(1, codec.decode(codec.encode(record)).wall_s) == math.copysign(1, number)
    assert codec.decode(codec.encode(record)).wall_s == number


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_cannot_hold_is_refused_by_its_path(bad):
    with pytest.raises(StoreError, match=r"`wall_s`"):
        codec.encode(msgspec.structs.replace(empty(), wall_s=bad))


def test_the_path_leads_through_lists_and_dictionaries():
    whole = golden()
    spoiled = msgspec.structs.replace(whole.verdicts[2], gain=Interval(middle=0.1, low=math.nan, high=0.2))
    record = msgspec.structs.replace(whole, verdicts=(*whole.verdicts[:2], spoiled))
    with pytest.raises(StoreError, match=r"`verdicts\[2\]\.gain\.low`"):
        codec.encode(record)


def test_a_newer_file_is_refused_with_a_hint():
    newer = codec.encode(empty()).replace(NOW, b'"schema_version":99')
    with pytest.raises(StoreError) as refusal:
        codec.decode(newer)
    assert "`99`" in refusal.value.what
    assert f"up to {SCHEMA_VERSION}" in refusal.value.because
    assert "upgrade netdyno" in refusal.value.hint


def test_a_version_that_never_was_is_refused():
    with pytest.raises(StoreError, match="`0`"):
        codec.decode(codec.encode(empty()).replace(NOW, b'"schema_version":0'))


def test_an_old_document_is_brought_forward_one_step_at_a_time():
    steps = (
        lambda raw: raw | {"walked": [*raw["walked"], "1 to 2"]},
        lambda raw: raw | {"walked": [*raw["walked"], "2 to 3"]},
        lambda raw: raw | {"walked": [*raw["walked"], "3 to 4"]},
    )
    new = codec.upgraded({"schema_version": 2, "walked": []}, 2, upgrades=steps, to=4)
    assert new == {"schema_version": 4, "walked": ["2 to 3", "3 to 4"]}


def test_a_record_of_version_1_is_read_as_it_was_written():
    old = stored()["record.v1.golden"]
    without_scripts = tuple(item for item in golden().evidence if item not in script_evidence())
    assert old == msgspec.structs.replace(golden(), evidence=without_scripts, patch=None, wrote=(), experiments=())


def test_there_is_one_upgrade_for_every_old_version():
    assert len(codec.UPGRADES) == SCHEMA_VERSION - 1


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "truncated"),
        (b"not json", "malformed"),
        (b'{"id": "x"}', "schema_version"),
        (codec.encode(golden())[:-20], "truncated"),
        (codec.encode(empty()).replace(b'"budget_s":600.0', b'"budget_s":"long"'), r"plan\.budget_s"),
        (b'{"schema_version":1,"id":"\xff"}', ""),
    ],
)
def test_what_is_not_a_record_is_refused_with_the_place(data, says):
    with pytest.raises(StoreError, match="not a record") as refusal:
        codec.decode(data)
    assert refusal.match("not a record")
    assert says.replace("\\", "") in refusal.value.because


def test_the_schema_in_the_repository_is_the_one_of_the_code():
    path = SCHEMA / f"record.v{SCHEMA_VERSION}.schema.json"
    kept, ours = json.loads(path.read_bytes()), json.loads(json.dumps(codec.schema()))
    assert undescribed(kept) == undescribed(ours), "run `python tests/reports/specimens.py` and look at the diff"


def undescribed(part):
    """Without the descriptions, which are docstrings and may be reworded at any time."""
    if isinstance(part, dict):
        return {
            key: undescribed(inner) for key, inner in part.items() if key != "description" or isinstance(inner, dict)
        }
    return [undescribed(inner) for inner in part] if isinstance(part, list) else part


def test_the_golden_record_in_the_repository_is_the_one_of_the_builder():
    path = SCHEMA / f"record.v{SCHEMA_VERSION}.golden.json"
    assert codec.decode(path.read_bytes()) == golden(), "run `python tests/reports/specimens.py` and look at the diff"


def test_the_golden_record_leaves_no_field_of_a_record_at_its_default():
    defaults = empty()
    always = {"schema_version", "id", "made_by", "made_at", "command", "target", "plan"}
    untouched = {
        name for name in Record.__struct_fields__ if getattr(golden(), name) == getattr(defaults, name)
    } - always
    assert not untouched
