"""Who may ask: a token where others can reach the service, known host names where only this machine can."""

import ipaddress
import secrets
from http import HTTPStatus

from netdyno.listening import is_loopback
from netdyno.serving.problems import Problem

MISDIRECTED = HTTPStatus.MISDIRECTED_REQUEST


class Door:
    """Lets a request in, or says why not. On the loopback no token is asked for, but pages of other sites are kept out."""

    def __init__(self, host: str, token: str | None) -> None:
        self.token = None if token is None else f"Bearer {token}".encode()
        self.names = {"localhost", host.lower()} if is_loopback(host) else None

    def check(self, headers: dict[bytes, bytes], *, open_to_all: bool = False) -> None:
        """Raises Problem for who may not come in; `open_to_all` is for health, which probes ask without a token."""
        if self.names is not None and not self._knows(headers.get(b"host", b"")):
            raise Problem(
                MISDIRECTED, "this service does not answer to that host name", hint="use the address that was printed"
            )
        if self.token is None or open_to_all:
            return
        if not secrets.compare_digest(headers.get(b"authorization", b""), self.token):
            raise Problem(
                HTTPStatus.UNAUTHORIZED,
                "this service wants its token",
                hint="send the header `authorization: Bearer TOKEN`",
                headers={"www-authenticate": "Bearer"},
            )

    def _knows(self, header: bytes) -> bool:
        """Whether a Host header is ours. A bare address always is: a page that was pointed here by its own name has that name."""
        text = header.decode("latin-1").lower()
        name = text[1:].partition("]")[0] if text.startswith("[") else text.rpartition(":")[0] if ":" in text else text
        assert self.names is not None
        if name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
