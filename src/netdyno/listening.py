"""How a server of ours comes to an address: what it needs, who can reach it, and what it says when it cannot listen."""

import importlib.util
import ipaddress
import socket
from collections.abc import Iterable

from netdyno.errors import NetdynoError


def needed(packages: Iterable[str], *, cannot: str, extra: str) -> None:
    """Raises NetdynoError when a package of the extra is missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise NetdynoError(
            cannot,
            because=f"{', '.join(f'`{name}`' for name in missing)} {'is' if len(missing) == 1 else 'are'} not installed",
            hint=f"pip install 'netdyno[{extra}]'",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int, *, backlog: int, hint: str) -> socket.socket:
    """A socket at that address. Raises NetdynoError when it cannot be had."""
    try:
        kind, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(where[:2], family=kind, backlog=backlog)
    except (OSError, OverflowError) as error:
        raise NetdynoError(
            f"cannot listen on `{host}`, port `{port}`",
            because=str(getattr(error, "strerror", None) or error),
            hint=hint,
        ) from error


def address(host: str, port: int) -> str:
    """What a client calls.

    >>> address("127.0.0.1", 8000), address("::1", 8000)
    ('http://127.0.0.1:8000', 'http://[::1]:8000')
    """
    # A name that stands for all addresses is none that a client can open.
    name = socket.gethostname() if host in {"0.0.0.0", "::", ""} else host  # noqa: S104
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"
