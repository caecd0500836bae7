"""The page in a browser, as a person meets it."""

import importlib.util
import math
import shutil

import pytest

from dashboard.specimens import journal, page
from netdyno.store import Store
from reports.specimens import golden

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDED = ("playwright", "starlette", "uvicorn", "plotly")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium: no `chromium` here"),
    pytest.mark.skipif(bool(MISSING), reason=f"needs `pip install {' '.join(MISSING)}`"),
]


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"
DRAWN = ".chart .scatterlayer path.js-line"


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, tmp_path):
    """Opens the page over the test's store; whatever a browser complains of fails the test."""
    complaints, contexts = [], []

    with page(tmp_path) as shown:

        def visited(path="#/", *, width=1400, **settings):
            context = chromium.new_context(viewport={"width": width, "height": 900}, **settings)
            contexts.append(context)
            view = context.new_page()
            view.set_default_timeout(60_000)
            view.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
            view.on("pageerror", lambda error: complaints.append(str(error)))
            view.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
            view.on(
                "request",
                lambda asked: (
                    complaints.append(asked.url) if not asked.url.startswith((shown.url, "data:", "blob:")) else None
                ),
            )
            view.goto(shown.url + path)
            view.wait_for_selector("html[data-ready]")
            return view

        yield visited
        for context in contexts:
            context.close()
    assert complaints == []


def texts(view, what):
    return [each.inner_text() for each in view.query_selector_all(what) if each.is_visible()]


def counted(view, lines):
    """Waits until so many lines are drawn."""
    from playwright.sync_api import expect

    expect(view.locator(DRAWN)).to_have_count(lines, timeout=60_000)


def test_no_run_says_how_to_make_one(visit):
    view = visit()
    assert "netdyno.watch(" in view.inner_text("main")


def test_runs_are_filtered_by_text_and_tag(tmp_path, visit):
    journal(tmp_path, "first", tags={"stage": "optim"})
    journal(tmp_path, "second", tags={"stage": "arch"})
    journal(tmp_path, "third", tags={"stage": "arch"}, end="failed")
    view = visit()
    assert sorted(texts(view, ".runs .name")) == ["first", "second", "third"]
    view.get_by_role("combobox", name="Tag").select_option("stage: arch")
    assert sorted(texts(view, ".runs .name")) == ["second", "third"]
    view.get_by_role("searchbox", name="Text").fill("thi")
    assert texts(view, ".runs .name") == ["third"]
    view.reload()  # the address keeps what is set
    view.wait_for_selector("html[data-ready]")
    assert texts(view, ".runs .name") == ["third"]


@pytest.mark.parametrize("width", [400, 1400])
def test_what_people_called_things_is_text_and_stays_on_the_page(tmp_path, visit, width):
    long = "a-name-without-a-space-" + "x" * 300
    run = journal(tmp_path, EVIL, tags={EVIL: EVIL, "long": long}, alerts=[EVIL], **{EVIL: [1.0], "y" * 120: [1.0]})
    other = journal(tmp_path, long)
    for path in ("#/", f"#/runs/{run.info.id}", f"#/runs/{run.info.id},{other.info.id}?together=1"):
        view = visit(path, width=width)
        assert EVIL in view.inner_text("main")
        view.wait_for_timeout(500)
        assert view.query_selector("main script, main img") is None
        assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_chart_goes_on_by_itself_and_only_new_points_travel(tmp_path, visit):
    run = journal(tmp_path, losses=range(100), end=None)
    view = visit(f"#/runs/{run.info.id}")
    view.wait_for_selector(DRAWN)
    assert "last 99 at 100" in view.inner_text(".chart .legend")
    sizes = []
    view.on("response", lambda answer: sizes.append(len(answer.body())) if "/api/points" in answer.url else None)
    run.point("loss", 101, 5.0)
    run.flush()
    view.wait_for_selector(".chart .legend :text('last 5 at 101')")
    assert max(sizes) < 600
    run.close("ended", 101)


def test_a_loss_that_is_no_number_is_seen(tmp_path, visit):
    run = journal(tmp_path, losses=[1.0, 0.5, math.nan, math.inf], end="failed", alerts=["loss-not-finite"])
    view = visit(f"#/runs/{run.info.id}")
    view.wait_for_selector(".chart .scatterlayer .points path")
    assert "2 not finite (the first NaN at 3)" in view.inner_text(".chart .legend")
    assert "size: 3" in view.inner_text(".alert")
    assert "failed" in view.inner_text(".card.run")


def test_runs_lie_over_each_other_and_a_mean_over_its_raw_line(tmp_path, visit):
    ids = [journal(tmp_path, name, losses=[1.0, 2.0] * 200).info.id for name in ("one", "other")]
    view = visit(f"#/runs/{','.join(ids)}")
    view.wait_for_selector(DRAWN)
    counted(view, 2)
    view.get_by_label("Smooth").select_option("10")
    counted(view, 4)
    view.get_by_label("Log scale").check()
    view.get_by_label("Over").select_option("time")
    view.wait_for_selector(".chart .xtitle:text('seconds')", state="attached")
    assert "axis=time&log=1&smooth=10" in view.url


def test_groups_are_chosen_and_drawn_together(tmp_path, visit):
    run = journal(tmp_path, phase__forward=[1.0, 2.0], phase__backward=[2.0, 1.0])
    view = visit(f"#/runs/{run.info.id}?together=1")
    counted(view, 3)
    assert texts(view, ".chart h3") == ["loss", "phase"]
    view.get_by_role("checkbox", name="loss", exact=True).uncheck()
    assert texts(view, ".chart h3") == ["phase"]


def test_everything_is_reached_by_keyboard_named_and_seen_in_focus(tmp_path, visit):
    run = journal(tmp_path, "digits", tags={"stage": "optim"})
    other = journal(tmp_path, "other")
    for path in ("#/", f"#/runs/{run.info.id},{other.info.id}"):
        view = visit(path)
        wanted = view.evaluate(
            "[...document.querySelectorAll('a, button, input, select, summary')].filter((e) => e.checkVisibility()).length"
        )
        reached = set()
        for _ in range(wanted + 5):
            view.keyboard.press("Tab")
            seen = view.evaluate(
                """() => { const e = document.activeElement; if (e === document.body) return null;
                const s = getComputedStyle(e); const name = e.ariaLabel || e.labels?.[0]?.innerText || e.innerText;
                e.dataset.at ??= Math.random(); return [e.dataset.at, e.tagName, name?.trim(), s.outlineStyle, e.getBoundingClientRect().width]; }"""
            )
            if seen is not None:
                assert seen[2], seen
                assert seen[3] == "solid", seen
                assert seen[4] > 0, seen
                reached.add(seen[0])
        assert len(reached) >= wanted


def test_a_chart_has_its_numbers_as_a_table(tmp_path, visit):
    run = journal(tmp_path, losses=[3.0, 2.0, 1.0])
    view = visit(f"#/runs/{run.info.id}")
    view.wait_for_selector(DRAWN)
    assert "lowest 1 at 3" in view.get_attribute(".chart .picture", "aria-label")
    view.click(".chart summary")
    view.wait_for_selector(".chart tbody tr")
    assert [row.split("\t")[-1] for row in texts(view, ".chart tbody tr")] == ["3", "2", "1"]


def test_checklists_and_histograms_are_told(tmp_path, visit):
    run = journal(tmp_path, end=None)
    run.event("checklist", 2, epoch=1, items=[{"item": "loss-finite", "state": "fail", "value": 0.5, "limit": 1.0}])
    run.event("histogram", 2, of="output", at=2, edges=[0.0, 1.0, 2.0], counts=[3, 1], not_finite=2)
    run.close("ended", 2)
    view = visit(f"#/runs/{run.info.id}")
    assert "✗ fail" in view.inner_text(".checks")
    assert "0.5, limit 1" in view.inner_text(".checks")
    assert "4 values from 0 to 2" in view.inner_text(".histograms")
    assert "2 more are not finite" in view.inner_text(".histograms")
    view.wait_for_selector(".histograms .bars path", state="attached")


def test_a_record_leads_to_its_report(tmp_path, visit):
    Store(tmp_path).save(golden())
    view = visit()
    view.click(".records a")
    view.wait_for_selector("h1")
    assert golden().target.name in view.title()


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_it_follows_the_light_of_the_room(visit, scheme, dark):
    view = visit(color_scheme=scheme)
    colour = view.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(colour[4:].split(",")[0]) < 100) == dark
