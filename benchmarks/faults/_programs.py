"""Whole scripts without an injected fault: healthy controls that tempt an alarm, and what cannot be learned better."""

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Program:
    """A script of its own. `metric` of its result line reaches `bound` with every seed: that is what healthy means here."""

    id: str  # of the list: "H09", "U02"
    script: str  # folder/name beside this file, without ".py"
    tempts: str  # what a hasty rule would say of it
    metric: str
    bound: float
    better: str = "higher"  # which way the metric is better
    note: str = ""

    @property
    def text(self) -> str:
        """The script as it stands."""
        return (HERE / f"{self.script}.py").read_text(encoding="utf-8")

    def reached(self, value: float) -> bool:
        """Whether a run was as good as the script promises; NaN never is."""
        return value >= self.bound if self.better == "higher" else value <= self.bound
