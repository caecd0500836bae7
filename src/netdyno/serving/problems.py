"""What is wrong with a request: the status, and what was expected instead."""

from http import HTTPStatus


class Problem(Exception):
    """A request that cannot be answered as it is. `hint` says what would be."""

    def __init__(self, status: HTTPStatus, says: str, *, hint: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(says)
        self.status = status
        self.says = says
        self.hint = hint
        self.headers = headers or {}


def malformed(says: str, *, hint: str = "") -> Problem:
    """It cannot be read at all."""
    return Problem(HTTPStatus.BAD_REQUEST, says, hint=hint)


def unfit(says: str, *, hint: str = "") -> Problem:
    """It can be read, and is nothing that this model takes."""
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, says, hint=hint)
