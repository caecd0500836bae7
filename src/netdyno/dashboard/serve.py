"""Opens the page at an address, and closes it when it is told to end."""

import importlib.util
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from netdyno.dashboard.guard import is_loopback
from netdyno.errors import NetdynoError

PACKAGES = ("starlette", "uvicorn", "plotly")
# Who looks has nothing to lose: what is still being answered gets a second.
FAREWELL_S = 1


def serve(store: Path, *, host: str, port: int, said: Callable[[str], None]) -> None:
    """Show the store until somebody interrupts; `said` is told the address as soon as it answers.

    Raises NetdynoError when a package is missing or the address cannot be had.
    """
    needed()
    import uvicorn

    from netdyno.dashboard.app import application

    listening = listen(host, port)
    token = None if is_loopback(host) else secrets.token_urlsafe(32)
    app = application(store, host=host, token=token)
    # No access log: the first address holds the token.
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=FAREWELL_S,
    )
    said(address(host, listening.getsockname()[1], token))
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # the usual end; by now the connections are closed
        pass
    finally:
        listening.close()


def needed() -> None:
    """Raises NetdynoError when a package of the extra is missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise NetdynoError(
            "cannot open the page",
            because=f"{', '.join(f'`{name}`' for name in missing)} {'is' if len(missing) == 1 else 'are'} not installed",
            hint="pip install 'netdyno[ui]'",
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket at that address. Raises NetdynoError when it cannot be had."""
    try:
        kind, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(where[:2], family=kind, backlog=64)
    except (OSError, OverflowError) as error:
        raise NetdynoError(
            f"cannot listen on `{host}`, port `{port}`",
            because=str(getattr(error, "strerror", None) or error),
            hint="leave `--port` out for a free one, and `--host` for this machine alone",
        ) from error


def address(host: str, port: int, token: str | None) -> str:
    """What a browser opens.

    >>> address("127.0.0.1", 8080, None), address("::1", 8080, "secret")
    ('http://127.0.0.1:8080/', 'http://[::1]:8080/?token=secret')
    """
    # A name that stands for all addresses is none that a browser can open.
    name = socket.gethostname() if host in {"0.0.0.0", "::", ""} else host  # noqa: S104
    place = f"[{name}]" if ":" in name else name
    return f"http://{place}:{port}/" + (f"?token={token}" if token else "")
