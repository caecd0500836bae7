"""Opens the page at an address, and closes it when it is told to end."""

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from netdyno import listening
from netdyno.listening import is_loopback

PACKAGES = ("starlette", "uvicorn", "plotly")
# Who looks has nothing to lose: what is still being answered gets a second.
FAREWELL_S = 1


def serve(store: Path, *, host: str, port: int, said: Callable[[str], None]) -> None:
    """Show the store until somebody interrupts; `said` is told the address as soon as it answers.

    Raises NetdynoError when a package is missing or the address cannot be had.
    """
    listening.needed(PACKAGES, cannot="cannot open the page", extra="ui")
    import uvicorn

    from netdyno.dashboard.app import application

    opened = listen(host, port)
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
    said(address(host, opened.getsockname()[1], token))
    try:
        uvicorn.Server(config).run(sockets=[opened])
    except KeyboardInterrupt:  # the usual end; by now the connections are closed
        pass
    finally:
        opened.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket at that address. Raises NetdynoError when it cannot be had."""
    return listening.listen(
        host, port, backlog=64, hint="leave `--port` out for a free one, and `--host` for this machine alone"
    )


def address(host: str, port: int, token: str | None) -> str:
    """What a browser opens.

    >>> address("127.0.0.1", 8080, None), address("::1", 8080, "secret")
    ('http://127.0.0.1:8080/', 'http://[::1]:8080/?token=secret')
    """
    return f"{listening.address(host, port)}/" + (f"?token={token}" if token else "")
