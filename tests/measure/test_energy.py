"""Energy is counted where a counter is, and "not measurable here" elsewhere: never zero."""

from netdyno.measure import energy


def test_a_machine_without_a_counter_says_so(tmp_path):
    assert energy.packages(tmp_path / "powercap") == ()
    assert energy.said(tmp_path / "powercap").startswith("not measurable here: this machine shows no energy counter")


def test_a_counter_that_may_not_be_read_is_not_taken_for_one(tmp_path):
    (tmp_path / "intel-rapl:0").mkdir()
    assert "not readable for this user" in energy.said(tmp_path)


def counted(tmp_path, value):
    (tmp_path / "intel-rapl:0").mkdir(exist_ok=True)
    file = tmp_path / "intel-rapl:0" / "energy_uj"
    file.write_text(f"{value}\n")
    return file


def test_what_is_spent_is_told_in_joules(tmp_path):
    file = counted(tmp_path, 2_500_000)
    with energy.spending(tmp_path) as spent:
        file.write_text("6500000\n")
    assert spent.joules == 4.0
    assert energy.said(tmp_path) == f"counted by `{file}`"


def test_a_counter_that_began_again_is_counted_on(tmp_path):
    file = counted(tmp_path, 9_000_000)
    (tmp_path / "intel-rapl:0" / "max_energy_range_uj").write_text("10000000\n")
    with energy.spending(tmp_path) as spent:
        file.write_text("500000\n")
    assert spent.joules == 1.5


def test_nothing_is_made_up_where_nothing_counts(tmp_path):
    with energy.spending(tmp_path) as spent:
        pass
    assert spent.joules is None


def test_all_packages_count_and_their_parts_do_not(tmp_path):
    """Work may run on the second socket: without it the bound were none."""
    files = [tmp_path / zone / "energy_uj" for zone in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0")]
    for file in files:
        file.parent.mkdir()
        file.write_text("1000000\n")
    with energy.spending(tmp_path) as spent:
        for file in files:
            file.write_text("3000000\n")
    assert spent.joules == 4.0
    assert energy.packages(tmp_path) == tuple(files[:2])
