"""The built site in headless Chromium: every page, at desktop and phone width."""

import os
import shutil
from urllib.parse import urlsplit

import pytest
from site_tools import HTML, build_site, serve

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.data,
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("CI"),
        reason="no Chromium on this machine (CI always has one)",
    ),
]

PROBE = """() => ({
  missing: [...document.images].filter(i => !i.complete || i.naturalWidth === 0).map(i => i.src),
  nameless: [...document.querySelectorAll('article img')].filter(i => !i.alt.trim()).length,
  formulas: document.querySelectorAll('article .math').length,
  typeset: document.querySelectorAll('article .math mjx-container').length,
  wrong: document.querySelectorAll('mjx-merror, [data-mjx-error]').length,
  raw: /\\\\\\(|\\\\\\[|\\\\frac/.test(document.querySelector('article').innerText),
  roles: /\\{value\\}|\\{ledger\\}/.test(document.querySelector('article').innerText),
  overflow: document.documentElement.scrollWidth - window.innerWidth,
  styled: getComputedStyle(document.body).fontFamily,
})"""

# An idle network does not mean that MathJax is done. If it never is, the assertions say so.
TYPESET = """async () => {
  const end = Date.now() + 60000;
  const pause = ms => new Promise(done => setTimeout(done, ms));
  while (document.readyState !== 'complete' && Date.now() < end) await pause(50);
  if (!window.MathJax && !document.querySelector('script[src*="mathjax" i]')) return;
  while (!window.MathJax?.startup?.promise && Date.now() < end) await pause(50);
  const done = Promise.resolve(window.MathJax?.startup?.promise).catch(() => null);
  await Promise.race([done, pause(end - Date.now())]);
}"""


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield instance
        instance.close()


@pytest.fixture(scope="module")
def address():
    build_site()
    with serve(HTML) as url:
        yield url


def visit(browser, url, width=1280):
    """Open a page; return what it shows, its errors, and the hosts it asked."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    errors, outside = [], []
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    page.on("response", lambda r: errors.append(f"{r.status} {r.url}") if r.status >= 400 else None)

    def guard(route):
        target = urlsplit(route.request.url)
        if target.scheme in ("http", "https") and target.hostname != "127.0.0.1":
            outside.append(route.request.url)
            return route.abort()
        return route.continue_()

    page.route("**/*", guard)
    page.goto(url, wait_until="networkidle")
    page.evaluate(TYPESET)
    facts = page.evaluate(PROBE)
    page.close()
    return facts, errors, outside


def pages():
    build_site()
    return sorted(p.name for p in HTML.glob("*.html") if p.stem not in ("genindex", "search"))


def test_every_page_reads_without_errors_or_other_hosts(browser, address):
    assert len(pages()) >= 5
    for name in pages():
        facts, errors, outside = visit(browser, f"{address}/{name}")
        assert not errors, (name, errors)
        assert not outside, (name, outside)
        assert not facts["missing"], (name, facts["missing"])
        assert facts["nameless"] == 0, name
        assert facts["typeset"] == facts["formulas"], name
        assert facts["wrong"] == 0, name
        assert not facts["raw"], name
        assert not facts["roles"], name


def test_chapters_have_typeset_formulas_and_figures(browser, address):
    facts, _, _ = visit(browser, f"{address}/suitability.html")
    assert facts["formulas"] > 3
    assert "data:image/svg+xml" in (HTML / "suitability.html").read_text(encoding="utf-8")


def test_no_page_scrolls_sideways_on_a_phone(browser, address):
    for name in pages():
        facts, _, _ = visit(browser, f"{address}/{name}", width=360)
        assert facts["overflow"] <= 0, (name, facts["overflow"])


def test_the_probe_sees_what_is_wrong(browser, tmp_path):
    """A page with every fault that the tests above look for."""
    (tmp_path / "index.html").write_text(
        "<!doctype html><html><body><article><img src='gone.png'>"
        "<span class='math'>\\(x\\)</span><p>{value}`a.b`</p>"
        "<div style='width:3000px'>wide</div></article>"
        "<script src='https://example.org/x.js'></script>"
        "<script>throw new Error('broken')</script></body></html>"
    )
    with serve(tmp_path) as url:
        facts, errors, outside = visit(browser, f"{url}/index.html")
    assert len(facts["missing"]) == 1
    assert facts["nameless"] == 1
    assert (facts["formulas"], facts["typeset"]) == (1, 0)
    assert facts["raw"]
    assert facts["roles"]
    assert facts["overflow"] > 0
    assert any("broken" in e for e in errors)
    assert outside == ["https://example.org/x.js"]


def test_ledger_links_lead_to_verdicts(browser, address):
    page = browser.new_page()
    page.goto(f"{address}/reproduces.html")
    links = page.eval_on_selector_all(
        "a[href*='#claim-']", "all => all.map(a => a.getAttribute('href'))"
    )
    page.close()
    assert links
    for link in links:
        name, _, anchor = link.partition("#")
        text = (HTML / name).read_text(encoding="utf-8")
        assert f"id='{anchor}'" in text or f'id="{anchor}"' in text, link


def test_notebook_download_and_csv(address):
    import urllib.request

    import nbformat

    with urllib.request.urlopen(f"{address}/notebooks/suitability.ipynb") as response:
        notebook = nbformat.reads(response.read().decode(), as_version=4)
    assert any(cell.get("outputs") for cell in notebook.cells)
    assert "data:text/csv;base64," in (HTML / "suitability.html").read_text(encoding="utf-8")
