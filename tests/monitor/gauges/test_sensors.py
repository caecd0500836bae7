from types import SimpleNamespace

from monitor.gauges.rides import aboard, one
from netdyno.monitor.gauges import sensors


def test_the_hottest_sensor_of_the_processor_speaks(monkeypatch):
    chips = {
        "coretemp": [SimpleNamespace(current=61.0), SimpleNamespace(current=72.0)],
        "nvme": [SimpleNamespace(current=90.0)],
    }
    monkeypatch.setattr(sensors.psutil, "sensors_temperatures", lambda: chips, raising=False)
    with aboard(one("sensors")) as told:
        pass
    assert told.points["temperature/cpu"] == [72.0]


def test_power_is_energy_by_time_also_where_the_counter_begins_anew(tmp_path):
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "max_energy_range_uj").write_text("100000000")
    (zone / "energy_uj").write_text("40000000")
    with aboard(one("sensors")) as told:
        gauge = told.observer.vitals.vitals[0]
        gauge.zones = sensors._zones(str(tmp_path / "intel-rapl:[0-9]*"))
        for energy in ("40000000", "90000000", "20000000", "50000000"):
            (zone / "energy_uj").write_text(energy)
            gauge.tick(1.0)
    assert told.points["power/cpu"][:3] == [50.0, 30.0, 30.0]


def test_parts_of_a_package_are_not_counted_twice(tmp_path):
    for name in ("intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text("1")
    assert [path[-12:] for path in sensors._zones(f"{tmp_path}/intel-rapl:[0-9]*")] == ["intel-rapl:0", "intel-rapl:1"]
