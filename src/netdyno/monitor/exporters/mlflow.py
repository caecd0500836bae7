"""MLflow: parameters, metrics with their steps, tags. Into an SQLite file unless another tracking address is given.

Needs:  the package mlflow.
Opens:  `mlflow ui --backend-store-uri sqlite:///FILE`.
"""

import logging
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from netdyno.monitor.exporters._base import ROOM, Exporter, News
from netdyno.store.journal import Run

EXPERIMENT = "netdyno"
MARK = "netdyno.run"  # the tag that a run is found by when it is exported again
# What its server takes at once.
MOST_METRICS, MOST_PARAMS, MOST_TEXT = 1000, 100, 5000
STATUS = {"ended": "FINISHED", "failed": "FAILED", "running": "RUNNING"}


class MLflow(Exporter):
    """Writes into `OUT`, a file or a tracking address such as `http://127.0.0.1:5000`."""

    needs: ClassVar[dict[str, str]] = {"mlflow": "mlflow"}

    @classmethod
    def usual(cls, store: Path, run: str) -> str:  # noqa: ARG003  one file holds all runs
        return str(store / ROOM / "mlflow.db")

    @property
    def where(self) -> str:
        if "://" in self.out:
            return self.out
        return f"sqlite:///{Path(self.out).absolute()}"

    def begin(self, run: Run) -> None:
        # It would send word of its use to its makers; who wants that can say so.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        for name in ("alembic", "mlflow.store.db.utils"):  # each step of making the tables is told otherwise
            logging.getLogger(name).setLevel(logging.WARNING)
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param, RunTag

        if "://" not in self.out:
            Path(self.out).parent.mkdir(parents=True, exist_ok=True)
        info = run.info
        self._metric, self._tag = Metric, RunTag
        self._client = MlflowClient(tracking_uri=self.where)
        self._began = datetime.fromisoformat(info.began_at).timestamp()
        tags = {**{word(name): value[:MOST_TEXT] for name, value in info.tags.items()}, MARK: info.id}
        self.id = self._run(info.name, tags)
        told = [Param(word(name), str(value)[:MOST_TEXT]) for name, value in info.settings.items()]
        for start in range(0, len(told), MOST_PARAMS):
            self._client.log_batch(self.id, params=told[start : start + MOST_PARAMS])

    def _run(self, name: str, tags: dict[str, str]) -> str:
        """The run that was made of this journal before, or a new one."""
        client = self._client
        there = client.get_experiment_by_name(EXPERIMENT)
        if there is not None:
            for found in client.search_runs([there.experiment_id], f"tags.`{MARK}` = '{tags[MARK]}'", max_results=1):
                return str(found.info.run_id)
        experiment = there.experiment_id if there is not None else self._experiment()
        return str(client.create_run(experiment, int(self._began * 1000), tags=tags, run_name=name).info.run_id)

    def _experiment(self) -> str:
        # Without a place of its own, artifacts would go to the folder that the training happens to run in.
        beside = None if "://" in self.out else (Path(self.out).absolute().parent / "mlartifacts").as_uri()
        return str(self._client.create_experiment(EXPERIMENT, artifact_location=beside))

    def take(self, news: News) -> None:
        metrics: list[Any] = []
        for name, points in news.series.items():
            key = word(name)
            for update, seconds, value in zip(*(column.tolist() for column in points), strict=True):
                metrics.append(self._metric(key, value, int((self._began + seconds) * 1000), int(update)))
        for start in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self.id, metrics=metrics[start : start + MOST_METRICS])
        tags = [
            self._tag(word(f"alert.{alert.cause}"), f"update {alert.update}: {alert.says}"[:MOST_TEXT])
            for alert in news.alerts()
        ]
        if tags:
            self._client.log_batch(self.id, tags=tags)

    def close(self, state: str) -> None:
        self._client.update_run(self.id, status=STATUS.get(state, "KILLED"))
        if state != "running":
            self._client.set_terminated(self.id, status=STATUS.get(state, "KILLED"))


def word(name: str) -> str:
    """A name in the letters that MLflow takes.

    >>> word("gradient_norm/layers[0]")
    'gradient_norm/layers_0_'
    """
    return re.sub(r"[^\w\-. :/]", "_", name, flags=re.ASCII)


EXPORTER = MLflow
