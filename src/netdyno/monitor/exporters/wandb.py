"""Weights & Biases: config, tags, history by update, alerts. Offline unless WANDB_MODE says otherwise.

Needs:  the package wandb.
Opens:  `wandb sync FOLDER/wandb/offline-run-…` sends it to a server; nothing is sent before.
"""

import contextlib
import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from netdyno.monitor.exporters._base import ROOM, Exporter, News
from netdyno.store.journal import Run

PROJECT = "netdyno"
LONGEST_TAG = 64  # its server takes no longer ones


class WeightsAndBiases(Exporter):
    """Writes `OUT/wandb/offline-run-…`."""

    needs: ClassVar[dict[str, str]] = {"wandb": "wandb"}

    @classmethod
    def usual(cls, store: Path, run: str) -> str:  # noqa: ARG003  its own folders tell runs apart
        return str(store / ROOM)

    def begin(self, run: Run) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # offline is offline
        import wandb

        info = run.info
        folder = Path(self.out)
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"wandb/offline-run-*-{info.id}"):  # an earlier export of the same run
            with contextlib.suppress(OSError):
                shutil.rmtree(old)
        self._wandb: Any = wandb
        self._began = datetime.fromisoformat(info.began_at).timestamp()
        self._run: Any = wandb.init(
            project=PROJECT,
            name=info.name,
            id=info.id,
            dir=str(folder),
            config=dict(info.settings),
            tags=[f"{name}:{value}"[:LONGEST_TAG] for name, value in info.tags.items()],
            mode=None if os.environ.get("WANDB_MODE") else "offline",
            reinit="create_new",  # the training may have a run of its own, which stays the one that `wandb.log` means
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, disable_job_creation=True,
                x_disable_stats=True, x_disable_meta=True,
            ),
        )  # fmt: skip
        # Its own steps may only grow, and series come as they come: so the update is a column that charts are drawn over.
        self._run.define_metric("update", hidden=True)
        self._run.define_metric("*", step_metric="update")

    @property
    def where(self) -> str:
        return str(Path(self._run.dir).parent) if hasattr(self, "_run") else self.out

    def take(self, news: News) -> None:
        for update, seconds, values in news.rows():
            self._run.log({"update": update, "_timestamp": self._began + seconds, **values})
        for histogram in news.histograms():
            told = self._wandb.Histogram(np_histogram=(histogram.counts, histogram.edges))
            self._run.log({"update": histogram.update, f"histogram/{histogram.of}": told})
        for alert in news.alerts():
            level = self._wandb.AlertLevel.ERROR if alert.severity == "trip" else self._wandb.AlertLevel.WARN
            told = f"update {alert.update}: {alert.says}" + (f"\n\ntry: {alert.fix}" if alert.fix else "")
            self._run.alert(title=alert.cause, text=told, level=level)

    def close(self, state: str) -> None:
        self._run.finish(exit_code=0 if state in {"ended", "stopped"} else 1)


EXPORTER = WeightsAndBiases
