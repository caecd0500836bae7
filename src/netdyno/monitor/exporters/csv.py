"""A table of all points: series, update, seconds since the beginning, value.

Needs:  nothing.
Opens:  any spreadsheet; `pandas.read_csv(FILE).pivot_table(index="update", columns="series", values="value")`.
"""

import csv
from pathlib import Path

from netdyno.monitor.exporters._base import ROOM, Exporter, News
from netdyno.store.disk import explained
from netdyno.store.journal import Run


class Csv(Exporter):
    """Writes the file `OUT`."""

    @classmethod
    def usual(cls, store: Path, run: str) -> str:
        return str(store / ROOM / f"{run}.csv")

    def begin(self, run: Run) -> None:  # noqa: ARG002  the table holds points only
        with explained(Path(self.out)):
            Path(self.out).parent.mkdir(parents=True, exist_ok=True)
            self._file = Path(self.out).open("w", newline="")  # noqa: SIM115  open until the run is over
        self._table = csv.writer(self._file)
        self._table.writerow(("series", "update", "seconds", "value"))

    def take(self, news: News) -> None:
        for name, points in news.series.items():
            for update, seconds, value in zip(*(column.tolist() for column in points), strict=True):
                self._table.writerow((name, int(update), seconds, value))
        self._file.flush()

    def close(self, state: str) -> None:  # noqa: ARG002
        self._file.close()


EXPORTER = Csv
