import http.server
import json
import ssl
import sys
import threading
import time
from email import message_from_bytes, policy

import pytest

from netdyno.errors import NetdynoError
from netdyno.monitor import sinks
from netdyno.monitor.alerts import Alerts
from netdyno.records.base import Place
from netdyno.records.journal import Alert

ALERT = Alert(
    cause="exploding-gradients", severity="trip", says="the gradient norm grew\nto 1100", update=37, seconds=4.5, run="pcb",
    fix="halve the learning rate", where=Place(file="train.py", line=12), because={"norm": 1100.0}, folds=("x",),
)  # fmt: skip
NOTE = Alert(cause="slow-loader", severity="note", says="the loader is slow", update=1, seconds=0.1)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


# ---------------------------------------------------------------- webhook


class Hook(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted; answers with the statuses it was given, and then with 200."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append((self.path, dict(self.headers), json.loads(body)))
        status, headers = self.server.answers.pop(0) if self.server.answers else (200, {})
        if status == "hang":
            self.server.release.wait(60)
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def hook():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.posts, server.answers, server.release = [], [], threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}/services/T0/B0"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()


def test_a_webhook_posts_words_for_people_and_fields_for_programs(hook):
    sinks.webhook(hook.url)(ALERT)
    ((path, headers, told),) = hook.posts
    assert path == "/services/T0/B0"
    assert headers["Content-Type"] == "application/json"
    assert "the gradient norm grew" in told["text"]
    assert "halve the learning rate" in told["text"]
    assert told["alert"]["cause"] == "exploding-gradients"
    assert told["alert"]["because"] == {"norm": 1100.0}
    assert told["alert"]["where"]["line"] == 12


def test_its_secret_comes_from_the_environment_and_is_written_down_nowhere(hook, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "Bearer s3cret")
    hook.answers[:] = [(403, {})]
    sink = sinks.webhook(hook.url, secret="HOOK_SECRET", header="X-Token")
    alerts = Alerts([sink])
    alerts.tell(ALERT)
    alerts.close()
    assert hook.posts[0][1]["X-Token"] == "Bearer s3cret"
    assert alerts.troubles == ["webhook 127.0.0.1: HTTPError: HTTP Error 403: Forbidden"]
    assert "s3cret" not in repr(alerts.troubles) + repr(sink)


def test_without_its_secret_it_says_so_before_the_run():
    with pytest.raises(NetdynoError, match="`NO_SUCH_VARIABLE` is not set"):
        sinks.webhook("https://127.0.0.1/hook", secret="NO_SUCH_VARIABLE")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "hook", "https://"])
def test_an_address_that_is_no_web_address_is_refused(url):
    with pytest.raises(NetdynoError, match="begins with `https://`"):
        sinks.webhook(url)


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_that_is_unwell_is_asked_again_with_growing_pauses(hook, status):
    hook.answers[:] = [(status, {})] * 3
    pauses = []
    sinks.webhook(hook.url, sleep=pauses.append)(ALERT)
    assert len(hook.posts) == 4
    assert pauses == [0.5, 1.0, 2.0]


def test_the_pause_that_the_server_asks_for_is_kept_within_bounds(hook):
    hook.answers[:] = [(429, {"Retry-After": "7"}), (503, {"Retry-After": "9999"}), (503, {"Retry-After": "soon"})]
    pauses = []
    sinks.webhook(hook.url, sleep=pauses.append)(ALERT)
    assert pauses == [7.0, 30.0, 2.0]


def test_after_some_tries_it_gives_up(hook):
    hook.answers[:] = [(500, {})] * 9
    with pytest.raises(OSError, match="500"):
        sinks.webhook(hook.url, sleep=lambda _: None, tries=3)(ALERT)
    assert len(hook.posts) == 3


def test_a_server_that_says_no_is_not_asked_again(hook):
    hook.answers[:] = [(404, {})]
    with pytest.raises(OSError, match="404"):
        sinks.webhook(hook.url)(ALERT)
    assert len(hook.posts) == 1


def test_a_server_that_hangs_is_left_after_the_time_out(hook):
    hook.answers[:] = [("hang", {})]
    sinks.webhook(hook.url, timeout_s=0.2, sleep=lambda _: None)(ALERT)
    assert len(hook.posts) == 2


def test_nobody_listening_is_an_error_after_the_tries():
    pauses = []
    with pytest.raises(OSError):
        sinks.webhook("http://127.0.0.1:9/", sleep=pauses.append, tries=2)(ALERT)
    assert len(pauses) == 1


def test_a_redirect_is_not_followed_with_the_secret(hook, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    hook.answers[:] = [(302, {"Location": f"{hook.url}/elsewhere"})]
    with pytest.raises(OSError, match="302"):
        sinks.webhook(hook.url, secret="HOOK_SECRET")(ALERT)
    assert [path for path, _, _ in hook.posts] == ["/services/T0/B0"]


def test_remarks_are_sent_only_to_who_wants_them(hook):
    sinks.webhook(hook.url)(NOTE)
    assert hook.posts == []
    sinks.webhook(hook.url, notes=True)(NOTE)
    assert len(hook.posts) == 1


# ---------------------------------------------------------------- e-mail


class Box:
    """Keeps the messages that a mail server was given."""

    def __init__(self):
        self.mails = []

    async def handle_DATA(self, _server, _session, envelope):
        self.mails.append((envelope, message_from_bytes(envelope.content, policy=policy.default)))
        return "250 kept"


@pytest.fixture
def mail():
    """Starts a mail server on the loopback; answers with its messages, its port and the passwords it was given."""
    controller = pytest.importorskip("aiosmtpd.controller", reason="needs aiosmtpd: pip install aiosmtpd")
    smtp = pytest.importorskip("aiosmtpd.smtp")
    begun = []

    def start(**settings):
        box = Box()
        box.logins = []

        def authenticate(_server, _session, _envelope, _mechanism, told):
            box.logins.append((told.login, told.password))
            return smtp.AuthResult(success=told.password == b"s3cret", handled=False)

        class AnyPort(controller.Controller):
            def _trigger_server(self):  # it calls itself up at the port that it was given, which was none
                self.port = self.server.sockets[0].getsockname()[1]
                super()._trigger_server()

        made = AnyPort(box, hostname="127.0.0.1", port=0, authenticator=authenticate, **settings)
        made.start()
        begun.append(made)
        box.port = made.port
        return box

    yield start
    for made in begun:
        made.stop()


def test_an_alert_is_mailed_to_all(mail):
    box = mail()
    sinks.email(["a@lab.test", "b@lab.test"], "127.0.0.1", port=box.port, sender="rig@lab.test", tls="none")(ALERT)
    ((envelope, message),) = box.mails
    assert envelope.rcpt_tos == ["a@lab.test", "b@lab.test"]
    assert message["Subject"] == "[pcb] the gradient norm grew to 1100"
    assert message["From"] == "rig@lab.test"
    text = message.get_content()
    assert "halve the learning rate" in text
    assert "norm: 1100" in text


def test_the_password_comes_from_the_environment(mail, monkeypatch):
    monkeypatch.setenv("NETDYNO_SMTP_PASSWORD", "s3cret")
    box = mail(auth_require_tls=False)
    sinks.email("a@lab.test", "127.0.0.1", port=box.port, user="rig", tls="none")(ALERT)
    assert box.logins == [(b"rig", b"s3cret")]
    assert len(box.mails) == 1


def test_a_refused_password_is_noted_without_it(mail, monkeypatch):
    monkeypatch.setenv("MAIL", "wr0ng")
    box = mail(auth_require_tls=False)
    alerts = Alerts([sinks.email("a@lab.test", "127.0.0.1", port=box.port, user="rig", password="MAIL", tls="none")])
    alerts.tell(ALERT)
    alerts.close()
    assert box.mails == []
    assert "SMTPAuthenticationError" in alerts.troubles[0]
    assert "wr0ng" not in alerts.troubles[0]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A key and a certificate for 127.0.0.1, in one file."""
    x509 = pytest.importorskip("cryptography.x509", reason="needs cryptography: pip install cryptography")
    import datetime as dt
    import ipaddress

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


def test_over_starttls_the_password_travels_encrypted(mail, monkeypatch, certificate):
    monkeypatch.setenv("NETDYNO_SMTP_PASSWORD", "s3cret")
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate)
    box = mail(tls_context=own)
    told = {"port": box.port, "user": "rig", "tls": "starttls"}
    with pytest.raises(ssl.SSLCertVerificationError):
        sinks.email("a@lab.test", "127.0.0.1", **told)(ALERT)  # nobody vouches for it
    assert box.logins == []
    trust = ssl.create_default_context(cafile=str(certificate))
    sinks.email("a@lab.test", "127.0.0.1", context=trust, **told)(ALERT)
    assert box.logins == [(b"rig", b"s3cret")]
    assert len(box.mails) == 1


def test_a_password_is_not_sent_in_the_clear(monkeypatch):
    monkeypatch.setenv("NETDYNO_SMTP_PASSWORD", "s3cret")
    with pytest.raises(NetdynoError, match="in the clear"):
        sinks.email("a@lab.test", "mail.lab.test", user="rig", tls="none")


def test_without_its_password_it_says_so_before_the_run(monkeypatch):
    monkeypatch.delenv("NETDYNO_SMTP_PASSWORD", raising=False)
    with pytest.raises(NetdynoError, match="`NETDYNO_SMTP_PASSWORD` is not set"):
        sinks.email("a@lab.test", "127.0.0.1", user="rig")


# ---------------------------------------------------------------- a program


def script(text, *words):
    return [sys.executable, "-c", text, *words]


def test_a_program_is_given_the_alert_as_json(tmp_path):
    path = tmp_path / "told.json"
    sinks.program(script("import sys; open(sys.argv[1], 'w').write(sys.stdin.read())", str(path)))(ALERT)
    told = json.loads(path.read_text())
    assert (told["cause"], told["update"], told["severity"]) == ("exploding-gradients", 37, "trip")


def test_a_program_that_fails_is_noted_with_its_last_word():
    alerts = Alerts([sinks.program(script("import sys; sys.stdin.read(); sys.exit('no network')"))])
    alerts.tell(ALERT)
    alerts.close()
    assert alerts.troubles[0].endswith("RuntimeError: it ended with 1: no network")


def test_a_program_that_does_not_read_is_content_too():
    sinks.program(script("pass"))(ALERT)


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path):
    path = tmp_path / "child"
    hangs = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); open(sys.argv[1], 'w').write(str(p.pid)); p.wait()"
    with pytest.raises(TimeoutError, match="ended after"):
        sinks.program(script(hangs, str(path)), timeout_s=2.0)(ALERT)
    child = int(path.read_text())
    until = time.monotonic() + 30
    while _lives(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _lives(child)


def _lives(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("argv", [[], ["/no/such/program"]])
def test_a_program_that_is_not_there_is_said_before_the_run(argv):
    with pytest.raises(NetdynoError, match="no such program"):
        sinks.program(argv)


def test_any_python_callable_is_a_sink(capsys):
    alerts = Alerts([print])
    alerts.tell(ALERT)
    alerts.close()
    assert "exploding-gradients" in capsys.readouterr().out
