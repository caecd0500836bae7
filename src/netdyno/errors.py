"""Every error a user can meet: what went wrong, why, and what to try."""


class NetdynoError(Exception):
    """Something the user can put right. Reads as three lines; exit status 2."""

    def __init__(self, what: str, *, because: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.because = because
        self.hint = hint

    def __str__(self) -> str:
        return f"error: {self.what}\n  because {self.because}\n  hint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross process borders, and keyword-only arguments do not by themselves."""
        return (_rebuilt, (type(self), self.what, self.because, self.hint))


def _rebuilt(kind: type[NetdynoError], what: str, because: str, hint: str) -> NetdynoError:
    return kind(what, because=because, hint=hint)


class TargetError(NetdynoError):
    """What was put on the dyno cannot be found, built or stepped."""


class StoreError(NetdynoError):
    """A record cannot be written or read."""


class ComparisonError(NetdynoError):
    """Two measurements that may not be compared; the differing key is named."""


class ArmError(Exception):
    """A side of a trial crashed, hung or was killed. Becomes a failed Trial, never ends a run."""

    def __init__(self, says: str, *, last_words: str | None = None) -> None:
        super().__init__(says)
        self.says = says
        self.last_words = last_words

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuilt_arm, (self.says, self.last_words))


def _rebuilt_arm(says: str, last_words: str | None) -> ArmError:
    return ArmError(says, last_words=last_words)
