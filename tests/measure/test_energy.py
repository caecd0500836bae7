"""Energy is counted where a counter is, and "not measurable here" elsewhere: never zero."""

from netdyno.measure import energy


def test_a_machine_without_a_counter_says_so(tmp_path):
    assert energy.counter(tmp_path / "powercap") is None
    assert energy.said(tmp_path / "powercap").startswith("not measurable here: this machine shows no energy counter")


def test_a_counter_that_may_not_be_read_is_not_taken_for_one(tmp_path):
    (tmp_path / "intel-rapl:0").mkdir()
    assert "not readable for this user" in energy.said(tmp_path)


def test_a_counter_is_read_in_joules(tmp_path):
    (tmp_path / "intel-rapl:0").mkdir()
    file = tmp_path / "intel-rapl:0" / "energy_uj"
    file.write_text("2500000\n")
    assert energy.counter(tmp_path) == file
    assert energy.joules(file) == 2.5
    assert "counted by" in energy.said(tmp_path)
