"""SARIF: what code hosts need of it is there, and says what the findings say."""

import json

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.reports import _sarif as sarif


def finding(**fields):
    known = {
        "id": "uncalled-method",
        "says": "`opt.step` is named and not called",
        "layer": "optimisation",
        "saves": Saving(low=0, high=0),
        "because": {"line": 3.0},
        "fix": "add the brackets",
        "where": Place(file="sub dir/train.py", line=3),
        "stage": "order",
    }
    return Finding(**(known | fields))


def run_of(tmp_path, *findings, rules=None):
    document = json.loads(sarif.render(findings, rules or {}, root=str(tmp_path)))
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-2.1.0.json")
    (run,) = document["runs"]
    return run


def test_every_result_names_a_rule_that_is_described(tmp_path):
    run = run_of(tmp_path, finding(), finding(id="other"), rules={"third": "What it looks for."})
    described = run["tool"]["driver"]["rules"]
    assert [each["id"] for each in described] == ["other", "third", "uncalled-method"]
    for result in run["results"]:
        assert described[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]


def test_a_place_is_a_way_from_the_root_and_a_line_from_one(tmp_path):
    (result,) = run_of(tmp_path, finding())["results"]
    (location,) = result["locations"]
    physical = location["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "sub%20dir/train.py", "uriBaseId": "ROOT"}
    assert physical["region"] == {"startLine": 3}


def test_the_root_is_a_folder_and_ends_in_a_slash(tmp_path):
    uri = run_of(tmp_path)["originalUriBaseIds"]["ROOT"]["uri"]
    assert uri.startswith("file:///")
    assert uri.endswith("/")


def test_a_file_elsewhere_has_its_whole_address(tmp_path):
    elsewhere = tmp_path.parent / "other.py"
    (result,) = run_of(tmp_path, finding(where=Place(file=str(elsewhere), line=1)))["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"] == {"uri": elsewhere.resolve().as_uri()}


def test_a_finding_without_a_place_has_no_location(tmp_path):
    (result,) = run_of(tmp_path, finding(where=None))["results"]
    assert "locations" not in result


def test_only_what_is_found_is_more_than_a_note(tmp_path):
    results = run_of(tmp_path, finding(), finding(confidence=0.5), finding(stage="failure"), finding(stage="note"))[
        "results"
    ]
    assert [each["level"] for each in results] == ["warning", "note", "error", "note"]


def test_the_fingerprint_stays_when_lines_move(tmp_path):
    before, after = run_of(tmp_path, finding(), finding(where=Place(file="sub dir/train.py", line=30)))["results"]
    assert before["partialFingerprints"] == after["partialFingerprints"]
