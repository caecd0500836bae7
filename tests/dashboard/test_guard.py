"""Who may look at the page."""

import pytest

pytest.importorskip("starlette", reason="needs the extra `ui`")
pytest.importorskip("uvicorn", reason="needs the extra `ui`")

from dashboard.specimens import page
from netdyno.dashboard.guard import Guard, is_loopback

TOKEN = "a-long-random-word"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    with page(tmp_path_factory.mktemp("store")) as served:
        yield served


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with page(tmp_path_factory.mktemp("store"), host="0.0.0.0", token=TOKEN) as served:
        yield served


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", ""]
)
def test_a_name_that_is_not_ours_is_refused(shown, host):
    assert shown.get("/api/runs", Host=host).status in {400, 421}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:9", "127.0.0.1:1"])
def test_our_own_names_are_answered(shown, host):
    assert shown.get("/api/runs", Host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_written(shown, method):
    assert shown.get("/api/runs", method=method).status == 405


def test_no_other_page_may_read_or_frame_this_one(shown):
    headers = shown.get("/", Origin="http://evil.example").headers
    assert not [name for name in headers if name.startswith("access-control")]
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "script-src 'self';" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/points", "/static/page.js", "/record", "/nothing"])
@pytest.mark.parametrize("given", ["", "?token=", "?token=wrong", f"?token={TOKEN}x", "?token=%C3%A4"])
def test_without_the_token_nothing_is_shown(guarded, path, given):
    answer = guarded.get(path + given)
    assert answer.status == 403
    assert TOKEN not in answer.text


@pytest.mark.parametrize(
    "cookie", ["", "netdyno-token=", "netdyno-token=wrong", "other=a-long-random-word", "\x01", "netdyno-token"]
)
def test_another_cookie_does_not_help(guarded, cookie):
    # 400 where the server's own parser refuses a control character before anybody looks at the cookie.
    assert guarded.get("/api/runs", Cookie=cookie).status in ({400, 403} if cookie == "\x01" else {403})


def test_the_token_becomes_a_cookie_and_leaves_the_address(guarded):
    answer = guarded.get(f"/?token={TOKEN}&a=b%0d%0aX-Evil:%201")
    assert answer.status == 303
    assert answer.headers["location"] == "/?a=b%0D%0AX-Evil%3A+1"
    assert "x-evil" not in answer.headers
    assert "HttpOnly" in answer.headers["set-cookie"]
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert guarded.get("/api/runs", Cookie=cookie).status == 200


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "///evil.example"])
def test_the_token_leads_to_no_other_host(guarded, path):
    to = guarded.get(f"{path}?token={TOKEN}").headers["location"]
    assert to.startswith("/")
    assert to[1] not in "/\\"


def test_a_host_that_one_asks_for_is_one_of_ours():
    guard = Guard(None, host="lab.example", token=TOKEN)
    assert guard.knows("lab.example:8080")
    assert guard.knows("LAB.EXAMPLE.")
    assert not guard.knows("elsewhere.example")


def test_only_this_machine_is_loopback():
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "lab.example", "")] == [False] * 5
