"""The page: what it shows, that it is sound, and that it stands alone."""

import base64
import hashlib
import html as standard
import itertools
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from netdyno.records import codec
from netdyno.reports import _figures, html
from netdyno.reports import _pictures as pictures
from reports import specimens

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """A page taken apart: tags with attributes, ids, headings, what scripts and styles hold, and the readable text."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.tags, self.open, self.text, self.unbalanced = [], [], [], []
        self.inside = {"script": [], "style": []}
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in self.inside:
            self.inside[tag].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] in self.inside:
            self.inside[self.open[-1]][-1] += data
        else:
            self.text.append(data)

    def all(self, attribute):
        return [(tag, attributes[attribute]) for tag, attributes in self.tags if attribute in attributes]

    def says(self):
        return " ".join("".join(self.text).split())


@pytest.fixture(scope="module")
def pages(sources):
    return {name: Page(source) for name, source in sources.items()}


@pytest.fixture(scope="module")
def golden():
    return html.page_info(specimens.golden())


def test_a_person_finds_the_answer_the_evidence_and_the_method(pages):
    said = pages["golden"].says()
    for sentence in (
        "1.82× faster: 12.4 → 6.8 ms per step (95 %: 1.78 to 1.86×)",
        "95 %: the range is for whoever times it again",
        "saves 3.52 ms",
        "3.34 to 3.71 ms",
        "not distinguishable from noise",
        "rows and residual add up to the measured total of 5.60 ms (5.44 to 5.77 ms) per step",
        "the loop waits for data in 41 % of every step",
        "work.py:34 in Digits.train",
        "loader = DataLoader(train, batch_size=64",
        "the treatment was still compiling after 60 s and was ended",
        "the model has no embedding that is looked up and reduced",
        "Example Xeon at 2.2 GHz",
        "256 in 6 trials",
    ):
        assert sentence in said


def test_bars_lie_where_their_numbers_say(golden):
    baseline, first, *_, final = golden.bars
    widest = golden.waterfall.widest
    assert baseline.bar == html.Span(0.0, pytest.approx(100 * 0.01243 / widest, abs=0.01))
    assert first.bar.left + first.bar.width == pytest.approx(baseline.bar.width, abs=0.01)
    assert first.bar.width == pytest.approx(100 * 0.00352 / widest, abs=0.01)
    assert final.bar.width == pytest.approx(100 * 0.00683 / widest, abs=0.01)
    assert first.whisker.width == pytest.approx(100 * (0.00371 - 0.00334) / widest, abs=0.01)


def test_predictions_and_outcomes_share_one_scale(golden):
    kept = golden.forecasts[0]
    assert golden.zero < golden.least < kept.predicted.left
    assert kept.predicted.left < kept.measured.left < kept.predicted.left + kept.predicted.width
    crashed = golden.forecasts[-1]
    assert crashed.measured is None
    assert crashed.svg == ""


def test_a_run_without_a_proven_factor_sets_none_in_large_type(golden):
    assert golden.big == "1.82×"
    assert html.page_info(specimens.no_more_than_noise()).big == ""
    assert html.page_info(specimens.no_win()).big == ""
    assert html.page_info(specimens.memory_goal()).big == ""


@pytest.mark.parametrize("name", sorted(specimens.every()))
def test_nothing_is_asked_of_a_network(pages, sources, name):
    page = pages[name]
    addresses = [
        each for kind in ("src", "href", "xlink:href", "srcset", "action", "data", "poster") for each in page.all(kind)
    ]
    assert all(address.startswith("#") for _, address in addresses)
    styles = " ".join([*page.inside["style"], *(style for _, style in page.all("style"))])
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", styles))
    assert "@import" not in styles
    assert not [tag for tag, _ in page.tags if tag in ("link", "iframe", "object", "embed", "img", "base")]
    (policy,) = [attributes["content"] for tag, attributes in page.tags if attributes.get("http-equiv")]
    assert policy.startswith("default-src 'none'")


@pytest.mark.parametrize("name", sorted(specimens.every()))
def test_every_element_is_closed_and_every_id_is_its_own(pages, name):
    page = pages[name]
    assert not page.unbalanced
    assert not page.open
    ids = [value for _, value in page.all("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", sorted(specimens.every()))
def test_every_reference_leads_somewhere(pages, name):
    page = pages[name]
    ids = {value for _, value in page.all("id")}
    wanted = {address[1:] for kind in ("href", "xlink:href") for _, address in page.all(kind)}
    wanted |= {value for kind in ("aria-labelledby", "aria-describedby") for _, value in page.all(kind)}
    styles = " ".join(value for kind in ("style", "clip-path") for _, value in page.all(kind))
    wanted |= set(re.findall(r"url\(#([^)]*)\)", styles))
    assert wanted <= ids


@pytest.mark.parametrize("name", sorted(specimens.every()))
def test_headings_come_in_order_under_one_first(pages, name):
    levels = [int(tag[1]) for tag, _ in pages[name].tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in itertools.pairwise(levels))


@pytest.mark.parametrize("name", sorted(specimens.every()))
def test_landmarks_names_and_a_way_past_the_menu(pages, name):
    tags = [tag for tag, _ in pages[name].tags]
    assert [tags.count(landmark) for landmark in ("main", "header", "footer", "nav")] == [1, 1, 1, 1]
    assert dict(pages[name].tags)["html"]["lang"] == "en"
    assert next(iter(pages[name].all("href"))) == ("a", "#main")
    scrolled = [attributes for _, attributes in pages[name].tags if attributes.get("class") == "scroll"]
    assert all(each["tabindex"] == "0" and each["role"] == "region" and each["aria-label"] for each in scrolled)
    pictures_ = [attributes for tag, attributes in pages[name].tags if tag == "figure"]
    assert all(each["role"] == "img" and each["aria-label"] for each in pictures_)
    assert all(attributes["aria-hidden"] == "true" for tag, attributes in pages[name].tags if tag == "svg")


@pytest.mark.parametrize("name", sorted(specimens.every()))
def test_only_our_script_runs_and_its_hash_is_in_the_policy(pages, name):
    page = pages[name]
    kinds = [attributes.get("type") for tag, attributes in page.tags if tag == "script"]
    assert kinds == ["application/json", None]
    ours = base64.b64encode(hashlib.sha256(page.inside["script"][1].encode()).digest()).decode()
    (policy,) = [attributes["content"] for tag, attributes in page.tags if attributes.get("http-equiv")]
    assert f"script-src 'sha256-{ours}'" in policy
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]


@pytest.mark.parametrize("name", sorted(specimens.every()))
def test_the_record_inside_is_the_record_shown(pages, name):
    assert codec.decode(pages[name].inside["script"][0].encode()) == specimens.every()[name]


def test_hostile_words_are_read_not_run(pages, sources):
    said = pages["hostile"].says()
    assert said.count("<script>alert('$x_1$')</script>") > 10
    assert "49" not in re.findall(r"\[bold\](.{4})", said)
    assert "<script>alert" not in sources["hostile"]


def test_code_keeps_its_spaces_and_numbers_keep_their_units(sources):
    assert "5\u00a0%" in sources["golden"]
    code = re.findall(r"<code>(.*?)</code>", sources["hostile"], flags=re.DOTALL)
    assert standard.unescape(code[0]) == "</script><script>alert('$x_1$')</script>&\"' [bold]{{ 7 * 7 }}"


def test_charts_take_their_colours_from_the_page():
    drawn = pictures.roofline(specimens.golden())
    svg = _figures.roofline_svg(drawn, name="roofline")
    assert "var(--running)" in svg
    assert not re.findall(r"#[0-9a-f]{6}\b", svg)
    assert "font-family" not in svg
    assert "body.1.conv" in svg


def test_a_pair_beyond_the_edge_is_drawn_at_the_edge():
    drawn = pictures.pairs((0.1,) * 60 + (-3.0,), (), also=(0.0,))
    svg = _figures.pairs_svg(drawn, gain=None, least_gain=0.05, decision="keep", name="t")
    assert drawn.beyond == 1
    assert "nan" not in svg


def _variables(css, dark):
    blocks = re.findall(r"\{\s*(--paper:.*?)\}", css, flags=re.DOTALL)
    chosen = next(block for block in blocks if ("color-scheme: dark" in block) == dark)
    return dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{6})", chosen))


def _light(colour):
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("ink", ["ink", "soft", "saved-ink", "waiting-ink", "bad"])
def test_words_stand_out_from_their_ground(sources, dark, ink):
    colours = _variables(Page(sources["empty"]).inside["style"][0], dark)
    for ground in ("paper", "panel", "faint"):
        high, low = sorted((_light(colours[ink]), _light(colours[ground])), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, ground)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("bar", ["saved", "baseline", "final", "running", "waiting", "blocked", "bad", "focus"])
def test_bars_stand_out_from_their_ground(sources, dark, bar):
    colours = _variables(Page(sources["empty"]).inside["style"][0], dark)
    high, low = sorted((_light(colours[bar]), _light(colours["panel"])), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 3.0


def _opened(path, profile, *options):
    """The page as the browser has it after its script ran."""
    return subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--no-first-run", "--enable-logging=stderr",
            f"--user-data-dir={profile}", *options, "--dump-dom", path.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip


@needs_browser
def test_a_browser_shows_what_a_person_would_read(sources, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(sources["hostile"], encoding="utf-8")
    done = _opened(path, tmp_path / "profile")
    page = Page(done.stdout)
    said = page.says()
    assert "1.82× faster: 12.4 → 6.8 ms per step (95 %: 1.78 to 1.86×)" in said
    assert "Save the record as JSON" in said
    buttons = [attributes for tag, attributes in page.tags if tag == "button"]
    assert all("hidden" not in each for each in buttons), "our script ran under its own policy"
    assert json.loads(page.inside["script"][0])["id"] == specimens.hostile().id
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, complaints


PROBE = """<script>addEventListener("load", () => {
  const button = document.getElementById("theme");
  const ground = () => getComputedStyle(document.body).backgroundColor;
  const before = ground();
  button.click();
  document.querySelectorAll("details").forEach((part) => { part.open = true; });
  parent.postMessage({
    page: document.documentElement.scrollWidth, window: innerWidth, changed: before !== ground(),
    theme: document.documentElement.dataset.theme, button: button.textContent,
  }, "*");
});</script></body>"""

PHONES = """<!doctype html><title>waiting</title><body><script>
const seen = [];
addEventListener("message", (message) => { seen.push(message.data); document.title = JSON.stringify(seen); });
</script>"""


@needs_browser
def test_the_page_is_no_wider_than_a_phone_and_its_theme_can_be_changed(sources, tmp_path):
    # A browser window cannot be as narrow as a phone, a frame can. Our policy would rightly refuse the probe.
    names = ("golden", "hostile", "memory-goal")
    for name in names:
        page = re.sub(r"<meta http-equiv[^>]*>", "", sources[name]).replace("</body>", PROBE)
        (tmp_path / f"{name}.html").write_text(page, encoding="utf-8")
    frames = "".join(f'<iframe src="{name}.html" style="width:360px;height:800px;border:0"></iframe>' for name in names)
    outer = tmp_path / "phones.html"
    outer.write_text(PHONES + frames, encoding="utf-8")
    done = _opened(outer, tmp_path / "profile", "--virtual-time-budget=5000")
    seen = json.loads(standard.unescape(re.search(r"<title>(.*?)</title>", done.stdout).group(1)))
    assert len(seen) == len(names)
    for each in seen:
        assert each == {"page": each["page"], "window": 360, "changed": True, "theme": "dark", "button": "Theme: dark"}
        assert each["page"] <= 360
