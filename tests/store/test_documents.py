"""Looks at data and searches on disk."""

import os

import msgspec
import pytest

from netdyno.errors import StoreError
from netdyno.records.audit import AUDIT_VERSION, Audit
from netdyno.records.study import Study, StudyPlan
from netdyno.store.documents import Documents


def look(name="a", at="2026-01-01T10:00:00", **fields):
    return Audit(id=name, made_by="netdyno 1", made_at=at, command="", target="data.csv", **fields)


@pytest.fixture
def shelf(tmp_path):
    return Documents(tmp_path)


def test_what_is_saved_is_loaded_again_whatever_its_kind(shelf):
    study = Study(id="s", made_by="n", made_at="2026-01-01", command="", target="garage:digits", plan=StudyPlan())
    for document in (look(wall_s=1.5), study):
        shelf.save(document)
        assert shelf.load(type(document), document.id) == document
    assert [line.id for line in shelf.list(Audit)] == ["a"]
    assert [line.id for line in shelf.list(Study)] == ["s"]


def test_the_last_one_is_the_newest_that_can_be_read(shelf):
    for name, at in (("old", "2026-01-01"), ("new", "2026-01-02")):
        shelf.save(look(name, at))
    (shelf.folder / "audits" / "torn.json").write_text('{"id": "torn", "made')
    assert shelf.load(Audit).id == "new"
    broken = [line for line in shelf.list(Audit) if line.broken]
    assert [line.id for line in broken] == ["torn"]


def test_a_part_of_an_id_will_do_where_it_fits_one(shelf):
    shelf.save(look("2026-digits-aa11"))
    shelf.save(look("2026-wine-bb22"))
    assert shelf.load(Audit, "bb22").id == "2026-wine-bb22"
    with pytest.raises(StoreError, match="not one look at data"):
        shelf.load(Audit, "2026")
    with pytest.raises(StoreError, match="there is no look at data `cc33`"):
        shelf.load(Audit, "cc33")


def test_a_newer_form_is_refused_with_a_hint(shelf):
    path = shelf.save(look())
    raw = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode(raw | {"schema_version": AUDIT_VERSION + 1}))
    with pytest.raises(StoreError) as refused:
        shelf.load(Audit, "a")
    assert "upgrade netdyno" in refused.value.hint


def test_an_empty_shelf_says_how_to_fill_it(shelf):
    with pytest.raises(StoreError) as nothing:
        shelf.load(Study)
    assert "netdyno learn" in nothing.value.hint
    assert shelf.list(Study) == ()


def test_a_crash_while_writing_leaves_the_earlier_state(shelf, monkeypatch):
    shelf.save(look())

    def torn(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", torn)
    with pytest.raises(StoreError, match="cannot write"):
        shelf.save(look(finished=True))
    monkeypatch.undo()
    assert not shelf.load(Audit, "a").finished
    assert [path.name for path in (shelf.folder / "audits").iterdir()] == ["a.json"]


def test_a_number_that_json_cannot_hold_is_named_and_nothing_is_written(shelf):
    with pytest.raises(StoreError, match="wall_s"):
        shelf.save(look(wall_s=float("nan")))
    assert shelf.list(Audit) == ()


def test_no_two_documents_get_one_id(shelf):
    names = {shelf.new_id(Audit, "garage:digits") for _ in range(20)}
    assert len(names) > 1
    assert all("garage-digits" in name for name in names)
