"""TensorBoard's event files: scalars, histograms, and alerts as text.

Needs:  the package tensorboard.
Opens:  `tensorboard --logdir FOLDER`; each run is a folder in it.
"""

from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from netdyno.monitor.exporters._base import ROOM, Exporter, Histogram, News
from netdyno.monitor.terminal import in_words
from netdyno.records.journal import RunInfo
from netdyno.store.journal import Run

# Our own files are known by it: a second export of a run takes the place of the first.
SUFFIX = ".netdyno"


class TensorBoard(Exporter):
    """Writes `OUT/RUN/events.out.tfevents…`."""

    needs: ClassVar[dict[str, str]] = {"tensorboard": "tensorboard"}

    @classmethod
    def usual(cls, store: Path, run: str) -> str:  # noqa: ARG003  one folder holds all runs
        return str(store / ROOM / "tensorboard")

    def begin(self, run: Run) -> None:
        from torch.utils.tensorboard import summary, writer

        info = run.info
        folder = Path(self.out) / info.id
        for old in folder.glob(f"events.out.tfevents.*{SUFFIX}"):
            old.unlink()
        self._summary: Any = summary
        # Not a SummaryWriter: what the training logs with one is its own cost, and ours is not.
        self._file: Any = writer.FileWriter(str(folder), filename_suffix=SUFFIX)
        self._began = datetime.fromisoformat(info.began_at).timestamp()
        self._file.add_summary(summary.text("run", in_markdown(info)), 0, self._began)

    def take(self, news: News) -> None:
        for name, points in news.series.items():
            for update, seconds, value in zip(*(column.tolist() for column in points), strict=True):
                self._file.add_summary(self._summary.scalar(name, value), int(update), self._began + seconds)
        for histogram in news.histograms():
            told = self._summary.histogram_raw(f"histogram/{histogram.of}", **raw(histogram))
            self._file.add_summary(told, histogram.update, self._began + histogram.seconds)
        for alert in news.alerts():
            told = self._summary.text(f"alerts/{alert.cause}", in_words(alert))
            self._file.add_summary(told, alert.update, self._began + alert.seconds)
        self._file.flush()

    def close(self, state: str) -> None:  # noqa: ARG002  event files have no word for it
        self._file.close()


def raw(histogram: Histogram) -> dict[str, Any]:
    """A histogram as TensorBoard has it: the upper ends of its stretches, and sums as if values lay in their middles."""
    edges, counts = histogram.edges, histogram.counts
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    return {
        "min": edges[0],
        "max": edges[-1],
        "num": sum(counts),
        "sum": sum(middle * count for middle, count in zip(middles, counts, strict=True)),
        "sum_squares": sum(middle**2 * count for middle, count in zip(middles, counts, strict=True)),
        "bucket_limits": edges[1:],
        "bucket_counts": counts,
    }


def in_markdown(info: RunInfo) -> str:
    """What a run is, as a table.

    >>> print(in_markdown(RunInfo(id="1", name="digits", began_at="", tags={"stage": "optim"}, settings={"lr": 0.1})))
    |||
    |---|---|
    |name|digits|
    |tag stage|optim|
    |lr|0.1|
    """
    told = {"name": info.name, **{f"tag {name}": value for name, value in info.tags.items()}, **info.settings}
    cells = (f"|{name}|{value}|".replace("\n", " ") for name, value in told.items())
    return "\n".join(("|||", "|---|---|", *cells))


EXPORTER = TensorBoard
