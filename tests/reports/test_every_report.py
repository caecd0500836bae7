"""What every renderer promises: any record becomes text, and text does no harm."""

import msgspec
import pytest

from netdyno import plugins
from netdyno.records import codec
from reports import specimens

ROOM = dict(plugins.modules("reports"))
RECORDS = specimens.every()
both = pytest.mark.parametrize(("renderer", "record"), [(r, n) for r in sorted(ROOM) for n in sorted(RECORDS)])


@pytest.fixture(scope="module")
def rendered(sources):
    """Each renderer with each record once."""
    others = {(name, record): ROOM[name].render(RECORDS[record]) for name in set(ROOM) - {"html"} for record in RECORDS}
    return others | {("html", record): source for record, source in sources.items()}


def test_no_renderer_is_broken():
    assert set(ROOM) >= {"text", "markdown", "html", "json"}
    assert not [module for module in ROOM.values() if isinstance(module, plugins.Broken)]


def test_there_is_a_golden_record_of_every_schema_version():
    assert len(specimens.stored()) == len(codec.UPGRADES) + 1


@both
def test_every_renderer_renders_every_record(rendered, renderer, record):
    text = rendered[renderer, record]
    assert isinstance(text, str)
    assert RECORDS[record].id in text or renderer in ("text", "markdown")
    assert "None" not in text or renderer in ("json", "html")
    assert "nan" not in text.replace("explanation", "")


@both
def test_what_a_program_wrote_moves_no_cursor(rendered, renderer, record):
    assert "\x1b" not in rendered[renderer, record]


@both
def test_a_crashed_trial_is_told_with_its_reason(rendered, renderer, record):
    crashed = [trial for trial in RECORDS[record].trials if trial.failed is not None and record != "hostile"]
    text = " ".join(rendered[renderer, record].replace("\u00a0", " ").split())
    assert all(renderer == "text" or trial.failed in text for trial in crashed)
    assert all("still compiling" in text for _ in crashed)


@both
def test_rendering_twice_gives_the_same_bytes(rendered, renderer, record):
    if record in ("golden", "empty"):
        assert ROOM[renderer].render(RECORDS[record]) == rendered[renderer, record]


@pytest.mark.parametrize("renderer", sorted(ROOM))
@pytest.mark.parametrize("field", ["environment", "ceilings", "baseline", "attribution"])
def test_a_missing_part_is_left_out_quietly(renderer, field):
    record = msgspec.structs.replace(specimens.memory_goal(), **{field: None})
    assert ROOM[renderer].render(record)


@pytest.mark.parametrize("renderer", sorted(ROOM))
def test_samples_that_were_never_taken_do_not_stop_a_report(renderer):
    whole = specimens.memory_goal()
    none = msgspec.structs.replace(whole.baseline.step, samples=())
    record = msgspec.structs.replace(whole, baseline=msgspec.structs.replace(whole.baseline, step=none), evidence=())
    assert ROOM[renderer].render(record)
