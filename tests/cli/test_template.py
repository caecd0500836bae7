from netdyno.cli._app import main
from netdyno.records.study import Study, StudyPlan
from netdyno.records.trial import Change
from netdyno.store.documents import Documents


def kept(tmp_path, *recipe):
    study = Study(
        id="2026-01-01-digits-abcd", made_by="netdyno", made_at="2026-01-01", command="", target="garage:digits", plan=StudyPlan(),
        recipe=recipe,
    )  # fmt: skip
    Documents(tmp_path).save(study)
    return study.id


def test_the_recipe_of_the_last_study_becomes_a_script(tmp_path, capsys):
    name = kept(
        tmp_path,
        Change(id="label-smoothing", settings={"smoothing": 0.1}),
        Change(id="residual", settings={"form": "v1"}),
    )
    script = tmp_path / "train.py"
    assert main(["template", "--study", "last", "--output", str(script), "--store", str(tmp_path)]) == 0
    assert "label_smoothing=0.1" in script.read_text()
    assert name in script.read_text()
    assert "not in the script, a person has to write it: residual" in capsys.readouterr().err


def test_without_a_file_the_script_goes_to_standard_output(tmp_path, capsys):
    assert main(["template", "garage:digits", "--store", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith('"""Train digits.')


def test_a_file_that_is_there_is_not_overwritten(tmp_path, capsys):
    (tmp_path / "train.py").write_text("mine")
    assert main(["template", "garage:digits", "--output", str(tmp_path / "train.py")]) == 2
    assert "there is such a file already" in capsys.readouterr().err
    assert (tmp_path / "train.py").read_text() == "mine"


def test_nothing_named_is_told_in_three_lines(capsys):
    assert main(["template"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 3
