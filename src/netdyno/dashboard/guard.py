"""Who may look: the Host header against rebinding, a token where others can reach the page, nothing but reading."""

import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

from netdyno.listening import is_loopback

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "netdyno-token"
# Everything comes from here. Styles may be inline because the chart library sets them on what it draws.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",  # the token stands in the first address
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "content-security-policy": POLICY,
    "cache-control": "no-store",
}


class Guard:
    """Lets through what may be let through, and puts the headers of a page that talks to nobody else on every answer."""

    def __init__(self, app: App, *, host: str, token: str | None) -> None:
        self.app = app
        self.token = token
        self.names = {"localhost", host.lower(), *(() if is_loopback(host) else _own_names())}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        refused = self._refusal(scope)
        if refused is not None:
            await _answer(send, *refused)
            return
        if self.token is not None and not self._has_cookie(scope):
            await self._at_the_door(scope, send)
            return
        await self.app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, "this page only reads"
        if not self.knows(_header(scope, b"host")):
            return 421, "this page does not answer to that host name; use the address that `netdyno ui` printed"
        return None

    def knows(self, host: str) -> bool:
        """Whether a Host header is one of ours. A bare address always is: rebinding needs a name."""
        name = _without_port(host).lower().rstrip(".")
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        return True

    def _has_cookie(self, scope: Scope) -> bool:
        try:
            cookie = SimpleCookie(_header(scope, b"cookie")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    def _is_token(self, given: str) -> bool:
        assert self.token is not None
        return secrets.compare_digest(given.encode(), self.token.encode())

    async def _at_the_door(self, scope: Scope, send: Send) -> None:
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if not any(name == "token" and self._is_token(value) for name, value in asked):
            await _answer(send, 403, "this page needs its token; use the whole address that `netdyno ui` printed")
            return
        rest = urlencode([(name, value) for name, value in asked if name != "token"])
        # The address without the token, so that it stays in no history and no screenshot. Always on this host.
        path = "/" + scope["path"].lstrip("/\\")
        to = path + (f"?{rest}" if rest else "")
        cookie = f"{COOKIE}={self.token}; Path=/; HttpOnly; SameSite=Lax"
        await _answer(send, 303, "", {"location": to, "set-cookie": cookie})


def _own_names() -> set[str]:
    return {socket.gethostname().lower(), socket.getfqdn().lower()}


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _header(scope: Scope, name: bytes) -> str:
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def _with_headers(send: Send) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            there = {key for key, _ in message["headers"]}
            fresh = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in there]
            message = {**message, "headers": [*message["headers"], *fresh]}
        await send(message)

    return sent


async def _answer(send: Send, status: int, says: str, headers: dict[str, str] | None = None) -> None:
    put = _with_headers(send)
    told = {"content-type": "text/plain; charset=utf-8", **(headers or {})}
    raw = [(key.encode(), _header_safe(value).encode("latin-1")) for key, value in told.items()]
    await put({"type": "http.response.start", "status": status, "headers": raw})
    await put({"type": "http.response.body", "body": says.encode()})


def _header_safe(value: str) -> str:
    from urllib.parse import quote

    return quote(value, safe="/?&=;:,+ -%.~_")
