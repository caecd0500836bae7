"""Where alerts go beside the terminal: a webhook, e-mail, a program. Each makes a function that takes an `Alert`.

Secrets come from environment variables, whose names are given here, and are written down nowhere.
"""

import contextlib
import os
import shutil
import signal
import smtplib
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from http.client import HTTPException
from typing import Any, Literal
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from netdyno.errors import NetdynoError
from netdyno.monitor.alerts import Sink
from netdyno.monitor.terminal import in_words
from netdyno.records.journal import Alert

Tls = Literal["starttls", "ssl", "none"]
# A server that is restarted is back within seconds; one that is not must not be asked for ever.
TRIES, FIRST_WAIT_S, LONGEST_WAIT_S = 4, 0.5, 30.0
# "Too many requests", and what a server or a gateway says while it is not well. Other answers would be the same again.
WORTH_ANOTHER_TRY = (408, 425, 429, 500, 502, 503, 504)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
LONGEST_SUBJECT = 120


def webhook(
    url: str,
    *,
    secret: str | None = None,
    header: str = "Authorization",
    notes: bool = False,
    timeout_s: float = 5.0,
    tries: int = TRIES,
    sleep: Callable[[float], None] = time.sleep,
) -> Sink:
    """Posts each alert as JSON: `text` in words, which chat services show, and `alert` with all its fields.

    `secret` names the environment variable whose value is sent in `header`. A server that does not answer, or says that it
    is unwell, is asked again, with growing pauses. Redirects are not followed: they could carry the secret elsewhere.

    Raises NetdynoError when the address is none, or the variable is not set.
    """
    where = urlsplit(url)
    if where.scheme not in {"http", "https"} or not where.hostname:
        raise NetdynoError(
            "cannot send alerts to that webhook",
            because="its address is no URL that begins with `https://` or `http://`",
            hint='use `webhook("https://host/path")`',
        )
    if secret is not None:
        _secret(secret)

    def tell(alert: Alert) -> None:
        if alert.severity == "note" and not notes:
            return
        told = {"text": in_words(alert).rstrip(), "alert": msgspec.to_builtins(alert)}
        headers = {"Content-Type": "application/json", "User-Agent": "netdyno"}
        if secret is not None:
            headers[header] = _secret(secret)
        request = Request(url, data=msgspec.json.encode(told), headers=headers, method="POST")  # noqa: S310  checked above
        _posted(request, timeout_s=timeout_s, tries=tries, sleep=sleep)

    return _named(tell, f"webhook {where.hostname}")


class _StayHere(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _posted(request: Request, *, timeout_s: float, tries: int, sleep: Callable[[float], None]) -> None:
    opener = build_opener(_StayHere)
    for left in reversed(range(tries)):
        pause = min(FIRST_WAIT_S * 2 ** (tries - 1 - left), LONGEST_WAIT_S)
        try:
            with opener.open(request, timeout=timeout_s):
                return
        except HTTPError as error:
            error.close()
            if error.code not in WORTH_ANOTHER_TRY or not left:
                raise
            pause = _asked_for(error, pause)
        except (URLError, HTTPException, OSError):
            if not left:
                raise
        sleep(pause)


def _asked_for(error: HTTPError, pause: float) -> float:
    """The pause that the server asked for, where it asked for one in seconds."""
    told = error.headers.get("Retry-After", "") if error.headers else ""
    return min(float(told), LONGEST_WAIT_S) if told.isdigit() else pause


def email(
    to: str | Sequence[str],
    host: str,
    *,
    port: int | None = None,
    sender: str | None = None,
    user: str | None = None,
    password: str = "NETDYNO_SMTP_PASSWORD",  # noqa: S107  the name of a variable
    tls: Tls = "starttls",
    notes: bool = False,
    timeout_s: float = 10.0,
    context: ssl.SSLContext | None = None,
) -> Sink:
    """Mails each alert through an SMTP server.

    With a `user`, the value of the environment variable `password` is the password; it is sent over TLS only, except to a
    server on this machine.

    Raises NetdynoError when the variable is not set, or the password would travel in the clear.
    """
    receivers = [to] if isinstance(to, str) else list(to)
    if user is not None:
        _secret(password)
        if tls == "none" and host not in LOOPBACK:
            raise NetdynoError(
                f"cannot send alerts through `{host}`",
                because="without TLS the password would travel in the clear",
                hint='use `tls="starttls"` or `tls="ssl"`, or leave `user` out',
            )

    def tell(alert: Alert) -> None:
        if alert.severity == "note" and not notes:
            return
        message = _message(alert, sender=sender or user or receivers[0], to=receivers)
        with _server(host, port, tls=tls, timeout_s=timeout_s, context=context) as server:
            if user is not None:
                server.login(user, _secret(password))
            server.send_message(message)

    return _named(tell, f"email {host}")


def _message(alert: Alert, *, sender: str, to: Sequence[str]) -> EmailMessage:
    message = EmailMessage()
    says = " ".join(alert.says.split())  # a header is one line
    message["Subject"] = f"[{' '.join(alert.run.split()) or 'netdyno'}] {says}"[:LONGEST_SUBJECT]
    message["From"], message["To"] = sender, ", ".join(to)
    values = "".join(f"  {name}: {value:g}\n" for name, value in alert.because.items())
    message.set_content(in_words(alert) + (f"\nmeasured:\n{values}" if values else ""))
    return message


@contextlib.contextmanager
def _server(host: str, port: int | None, *, tls: Tls, timeout_s: float, context: ssl.SSLContext | None) -> Any:
    trust = context or ssl.create_default_context()
    if tls == "ssl":
        with smtplib.SMTP_SSL(host, port or 465, timeout=timeout_s, context=trust) as server:
            yield server
        return
    with smtplib.SMTP(host, port or (587 if tls == "starttls" else 25), timeout=timeout_s) as server:
        if tls == "starttls":
            server.starttls(context=trust)
        yield server


def program(argv: Sequence[str], *, notes: bool = False, timeout_s: float = 30.0) -> Sink:
    """Runs a program for each alert, with the alert as JSON on its standard input. What it prints is not kept.

    A program that takes longer than `timeout_s` is ended, with what it started.

    Raises NetdynoError when there is no such program.
    """
    words = [str(word) for word in argv]
    if not words or shutil.which(words[0]) is None:
        raise NetdynoError(
            f"cannot send alerts to the program `{words[0] if words else ''}`",
            because="there is no such program that may be run",
            hint='give its path and its words: `program(["/usr/local/bin/tell", "--urgent"])`',
        )

    def tell(alert: Alert) -> None:
        if alert.severity == "note" and not notes:
            return
        # A file takes what it says: a pipe would stay open for as long as anything it started lives.
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
            )
            try:
                process.communicate(msgspec.json.encode(alert), timeout=timeout_s)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise TimeoutError(f"it was ended after {timeout_s:g} s") from None
            if process.returncode:
                said.seek(0)
                last = said.read().decode(errors="replace").strip().splitlines()[-1:]
                raise RuntimeError(f"it ended with {process.returncode}{': ' + last[0][:200] if last else ''}")

    return _named(tell, f"program {os.path.basename(words[0])}")


def _secret(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise NetdynoError(
            "cannot send alerts without their secret",
            because=f"the environment variable `{variable}` is not set",
            hint=f"`export {variable}=...` before the run; it is written down nowhere",
        )
    return value


def _named(sink: Callable[[Alert], None], name: str) -> Sink:
    sink.__name__ = name
    return sink
