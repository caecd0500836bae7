"""How well a script's model does, in numbers that do not depend on the scale of its loss."""

from netdyno.records.base import Evidence, Noun


class Round(Noun, frozen=True, kw_only=True):
    """One evaluation: what was scored between two updates, after `at` updates, over `rows` rows.

    `score` is the share that is right (accuracy) or the share of variance explained (R², at least -1); `loss` the mean loss,
    None when no loss was computed or it was not finite.
    """

    at: int
    score: float | None
    loss: float | None
    rows: int


class Scores(Evidence, frozen=True, kw_only=True):
    """Scores of training batches and of evaluations.

    `measure` is "accuracy", "r2" or "loss". `train_first` and `train_last` are means over the first and last training batches that were
    looked at, `rounds` the evaluations in order (the first and the latest ones, if there are many).
    """

    measure: str
    train_first: float | None = None
    train_last: float | None = None
    rounds: tuple[Round, ...] = ()

    @property
    def last(self) -> float | None:
        """The score of the last evaluation that has one, else that of the last training batches."""
        told = [each.score for each in self.rounds if each.score is not None]
        return told[-1] if told else self.train_last
