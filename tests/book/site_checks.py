"""What a good page is: checks in a browser that run on any folder of HTML pages.

`visit` loads a page once, looks at it in both themes and at both widths, and returns a `Visit` with
everything that is wrong on it, by the kind of fault; `page_weights` needs no browser.
"""

import itertools
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe

AXE = Axe()
DESKTOP, PHONE = 1280, 360
MEGABYTE = 1_000_000
HEAVIEST = MEGABYTE

#: What a page keeps of a reader's choices is not for the next one; and it is not laid out once more
#: when the window becomes a desktop's again.
LEAVE = """() => {
  try { localStorage.clear(); } catch { }
  document.documentElement.style.display = 'none';
}"""

#: Hidden parts are opened first, so that what a click shows is looked at as well.
PREPARE = """async () => {
  const still = document.createElement('style');
  still.textContent = '*, ::before, ::after { transition: none !important; '
    + 'animation: none !important; }';
  document.head.append(still);
  document.querySelector('.companion-foot button')?.click();
  for (const folded of document.querySelectorAll('details')) folded.open = true;
  const loaded = image => new Promise(done => { image.onload = image.onerror = done; });
  for (const image of document.images) image.loading = 'eager';
  await Promise.all([...document.images].filter(i => !i.complete).map(loaded));
}"""

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

STRUCTURE = r"""() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const brief = e => e.outerHTML.replace(/data:[^'"]*/g, 'data:').slice(0, 160);
  const shown = e => e.checkVisibility({visibilityProperty: true})
    && !e.closest('[aria-hidden=true]');
  const named = e => {
    const by = (e.getAttribute('aria-labelledby') || '').split(/\s+/).filter(Boolean)
      .map(id => document.getElementById(id)?.textContent || '').join('');
    const inside = all('img[alt], [aria-label]', e)
      .map(i => i.getAttribute('alt') || i.getAttribute('aria-label')).join('');
    const label = e.labels ? [...e.labels].map(l => l.textContent).join('') : '';
    return [e.getAttribute('aria-label'), by, label, inside, e.getAttribute('title'),
      /^(INPUT|SELECT|TEXTAREA)$/.test(e.tagName) ? '' : e.textContent]
      .some(text => (text || '').trim());
  };
  const meta = name => document.querySelector(`meta[name="${name}"]`)?.content.trim() || '';
  const graph = name => document.querySelector(`meta[property="${name}"]`)?.content.trim() || '';
  const found = {};
  const note = (kind, items) => { if (items.length) found[kind] = items; };
  const article = document.querySelector('article') || document.body;

  note('images that do not load', all('img')
    .filter(i => !i.complete || i.naturalWidth === 0).map(brief));
  note('letters that do not load', [...document.fonts].filter(f => f.status === 'error')
    .map(f => f.family));
  note('images without alternative text', all('img')
    .filter(i => i.getAttribute('role') !== 'presentation' && !i.alt.trim()).map(brief));
  note('figures without caption', all('figure')
    .filter(f => !f.querySelector('figcaption')?.textContent.trim()).map(brief));

  const headings = all('h1, h2, h3, h4, h5, h6').filter(shown);
  const levels = headings.map(h => Number(h.tagName[1]));
  const tops = headings.filter(h => h.tagName === 'H1');
  if (tops.length !== 1) found['not exactly one h1'] = [`${tops.length} h1`];
  // The page's own outline: navigation beside it has headings of its own.
  const inner = all('h1, h2, h3, h4, h5, h6', article).filter(shown);
  note('headings that skip a level', inner.filter((h, i) =>
    Number(h.tagName[1]) > (i ? Number(inner[i - 1].tagName[1]) : 0) + 1).map(brief));
  note('empty headings', inner.filter(h => !h.textContent.trim()).map(brief));

  note('fields without label', all('input:not([type=hidden]), select, textarea')
    .filter(shown).filter(e => !named(e)).map(brief));
  note('links or buttons without name', all('a[href], button, summary')
    .filter(shown).filter(e => !named(e)).map(brief));
  // In a line of text a link is known by more than its color: it is underlined, or a box, or bold.
  const line = e => /^inline$/.test(getComputedStyle(e).display);
  const apart = (e, box) => {
    const own = getComputedStyle(e), around = getComputedStyle(box);
    return /underline/.test(own.textDecorationLine) || parseFloat(own.borderBottomWidth) > 0
      || own.fontWeight !== around.fontWeight || own.backgroundColor !== 'rgba(0, 0, 0, 0)';
  };
  note('links known by color alone', all('a[href]').filter(shown).filter(line).filter(e => {
    let box = e.parentElement;
    while (box.parentElement && line(box)) box = box.parentElement;
    const words = e.textContent.trim();
    const links = all('a[href]', box).map(a => a.textContent).join('');
    const rest = box.textContent.replace(/\s/g, '').length - links.replace(/\s/g, '').length;
    return words && rest > 0 && !apart(e, box) && !all('*', e).some(inner => apart(inner, box));
  }).map(brief));
  const ids = all('[id]').filter(e => !e.closest('svg, mjx-container')).map(e => e.id);
  note('ids used twice', [...new Set(ids.filter((id, i) => ids.indexOf(id) !== i))]);
  note('links to a missing part of the page', all('a[href^="#"]')
    .map(a => decodeURIComponent(a.getAttribute('href').slice(1)))
    .filter(id => id && !document.getElementById(id)));

  if (!document.documentElement.lang) found['no language'] = ['<html> has no lang'];
  if (!document.title.trim()) found['no title'] = ['<title> is empty'];
  if (!/width=device-width/.test(meta('viewport'))) found['no viewport'] = [meta('viewport')];
  if (meta('description').length < 20) found['no description'] = [meta('description')];
  for (const name of ['og:title', 'og:description', 'og:type'])
    if (!graph(name)) found['no social card'] = [...(found['no social card'] || []), name];
  if (!meta('twitter:card'))
    found['no social card'] = [...(found['no social card'] || []), 'twitter:card'];
  note('social addresses that are not absolute', ['og:url', 'og:image'].map(graph)
    .filter(address => address && !/^https?:\/\//.test(address)));
  if (!document.querySelector('link[rel~=icon]')) found['no favicon'] = ['no link rel=icon'];
  const footer = all('footer').map(f => f.textContent).join(' ').replace(/\s+/g, ' ').slice(-600);
  if (!/\bVersion \d+\.\d+/.test(footer)) found['no version in the footer'] = [footer];
  if (!/\b20\d\d-\d\d-\d\d\b/.test(footer)) found['no date in the footer'] = [footer];

  const text = article.innerText;
  note('raw markup', (text.match(/\\\(|\\\[|\\frac|\{(value|cite|ledger)\}/g) || []));
  const formulas = all('.math', article), typeset = formulas.filter(
    f => f.querySelector('mjx-container'));
  if (typeset.length !== formulas.length)
    found['formulas not typeset'] = [`${formulas.length - typeset.length}`];
  note('formulas with errors', all('mjx-merror, [data-mjx-error]').map(brief));
  return {found, formulas: formulas.length, figures: all('figure img', article).length,
          tables: all('table', article).length};
}"""

WIDTH = r"""() => {
  const brief = e => e.outerHTML.replace(/data:[^'"]*/g, 'data:').slice(0, 160);
  const found = {};
  const note = (kind, items) => { if (items.length) found[kind] = items; };
  const over = document.documentElement.scrollWidth - window.innerWidth;
  if (over > 0) found['scrolls sideways'] = [`${over} px too wide`];
  const article = document.querySelector('article') || document.body;
  const edge = document.documentElement.clientWidth + 1;
  const scroller = e => {
    for (let box = e.parentElement; box; box = box.parentElement)
      if (/auto|scroll/.test(getComputedStyle(box).overflowX) && box !== document.body
          && box.closest('article, body > div') && box.scrollWidth > box.clientWidth) return box;
    return null;
  };
  const tables = [...article.querySelectorAll('table')].filter(t => t.checkVisibility());
  const wide = t => t.getBoundingClientRect().right > edge
    || t.scrollWidth > t.parentElement.clientWidth + 1;
  note('tables that are cut', tables.filter(t => wide(t) && !scroller(t)).map(brief));
  // Not the caption's box but its text: what of it can be read before anything is scrolled.
  note('captions that are cut', tables.filter(t => t.caption).filter(t => {
    const range = document.createRange();
    range.selectNodeContents(t.caption);
    const box = scroller(t)?.getBoundingClientRect().right ?? edge;
    return [...range.getClientRects()].some(r => r.right > Math.min(box, edge) + 1);
  }).map(t => t.caption.textContent));
  // Of each drawing one version is shown, whole, and its words are not shrunk with it.
  const drawings = [...article.querySelectorAll('.companion-drawing')];
  const drawn = e => [...e.querySelectorAll('svg')].filter(svg => svg.clientWidth > 0);
  note('drawings not shown once', drawings
    .filter(e => e.checkVisibility() && drawn(e).length !== 1).map(brief));
  note('drawings that are cut', drawings.flatMap(drawn)
    .filter(e => e.getBoundingClientRect().left < 0
      || e.getBoundingClientRect().right > window.innerWidth).map(brief));
  const scale = ({a, b}) => Math.hypot(a, b);
  note('drawings with small words', drawings.flatMap(drawn)
    .flatMap(e => [...e.querySelectorAll('text')])
    .filter(t => parseFloat(getComputedStyle(t).fontSize) * scale(t.getScreenCTM()) < 11)
    .map(brief));
  const code = [...article.querySelectorAll('div.highlight pre')];
  if (window.innerWidth >= 1280) note('code lines that are cut', code.filter(e =>
    e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map(brief));
  const scrolling = [...article.querySelectorAll('*')].filter(e =>
    e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX)
    && e.checkVisibility() && !e.closest('mjx-container'));
  note('scrolls without keyboard', scrolling.filter(e => e.tabIndex < 0).map(brief));
  note('scrolling tables without role or name', scrolling
    .filter(e => e.querySelector('table'))
    .filter(e => e.getAttribute('role') !== 'region' || !e.getAttribute('aria-label')?.trim())
    .map(brief));
  return {found, scrolling: scrolling.length, drawings: drawings.flatMap(drawn).length};
}"""

# WCAG 2.1, 1.4.3 (AA): 4.5 to 1, or 3 to 1 from 24 px or 18.66 px bold.
CONTRAST = r"""theme => {
  document.documentElement.dataset.theme = theme;
  document.documentElement.dataset.mode = theme;
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext('2d', {willReadFrequently: true});
  const known = new Map();
  const rgba = colour => {
    if (!known.has(colour)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      const d = pen.getImageData(0, 0, 1, 1).data;
      known.set(colour, [d[0], d[1], d[2], d[3] / 255]);
    }
    return known.get(colour);
  };
  const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
  const light = c => c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92
    : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05); };
  const grounds = new Map();
  const ground = e => {
    if (!e) return theme === 'dark' ? [18, 18, 18] : [255, 255, 255];
    if (!grounds.has(e))
      grounds.set(e, over(rgba(getComputedStyle(e).backgroundColor), ground(e.parentElement)));
    return grounds.get(e);
  };
  const opacities = new Map();
  const opacity = e => {
    if (!e) return 1;
    if (!opacities.has(e))
      opacities.set(e, Number(getComputedStyle(e).opacity) * opacity(e.parentElement));
    return opacities.get(e);
  };
  const faults = new Map(), looked = new Set();
  const look = (e, text) => {
    if (looked.has(e)) return;
    if (!e.checkVisibility({visibilityProperty: true, opacityProperty: true})) return;
    looked.add(e);
    const style = getComputedStyle(e), below = ground(e), colour = rgba(style.color);
    const faint = [...colour.slice(0, 3), colour[3] * opacity(e)];
    const has = ratio(over(faint, below), below);
    if (has >= 4.5) return;
    const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
    const needed = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    if (has >= needed) return;
    if (e.closest('[disabled], [aria-disabled=true], mjx-assistive-mml, option')) return;
    const box = e.getBoundingClientRect();
    if (box.width <= 1 || box.height <= 1) return;
    const kind = `${style.color} on rgb(${below.map(Math.round)}): ${has.toFixed(2)}`;
    if (!faults.has(kind)) faults.set(kind, `${kind}, ${theme}, needs ${needed}: `
      + `<${e.tagName.toLowerCase()} class="${e.className}"> ${text.trim().slice(0, 40)}`);
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());)
    if (node.data.trim() && !/^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE)$/.test(node.parentElement.tagName))
      look(node.parentElement, node.data);
  for (const formula of document.querySelectorAll('mjx-math')) look(formula, 'a formula');
  const found = {};
  if (faults.size) found[`low contrast (${theme})`] = [...faults.values()];
  // Figures have dark ink: their ground has to be light, and both change places or neither does.
  const turned = /^invert\(0?\.9\d*\) hue-rotate\(180deg\)$/;
  const whole = filter => filter === 'none' || turned.test(filter);
  const dim = [...document.querySelectorAll('article figure img')].filter(i =>
    light(ground(i)) < 0.8 || !whole(getComputedStyle(i).filter)).map(i => i.alt.slice(0, 80));
  if (dim.length) found[`figures on a dark ground (${theme})`] = dim;
  return {found, looked: looked.size};
}"""


@dataclass
class Visit:
    """What a page showed: faults by kind, and how much there was to look at."""

    faults: dict[str, list[str]] = field(default_factory=dict)
    formulas: int = 0
    figures: int = 0
    tables: int = 0
    scrolling: int = 0
    drawings: int = 0
    texts: int = 0
    seen: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    measured: list[int] = field(default_factory=list)


@contextmanager
def _watched(page, result: Visit) -> Iterator[None]:
    """Notes what a page asks for, and what it got wrong, until the block ends."""
    errors, outside = [], []

    def answered(response):
        result.seen.append(response.url)
        if response.status >= 400:
            errors.append(f"{response.status} {response.url}")

    def asked(request):
        target = urlsplit(request.url)
        if target.scheme in ("http", "https") and target.hostname != "127.0.0.1":
            outside.append(request.url)

    listeners = {
        "pageerror": lambda e: errors.append(str(e)),
        "console": lambda m: errors.append(m.text) if m.type == "error" else None,
        "response": answered,
        "request": asked,
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    yield
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    if errors:
        result.faults["errors"] = errors
    if outside:
        result.faults["other hosts asked"] = outside


def visit(page, url: str, axe: bool = True, patience: float = 5, measure: str = "") -> Visit:
    """Look at what is at an address: on a desktop in either theme, then as wide as a phone.

    axe takes half of the time: pages that are made of the same parts may go without. `measure` is
    evaluated before anything is opened, and its result kept. The theme makes what has begun to
    scroll focusable 0.3 s after the window has changed, on a busy machine later: faults of a width
    are those that stay for `patience` seconds. No other host is reached: see `site_tools.LAUNCH`.
    """
    (result,) = _steps(page, url, axe, patience, measure)
    return result


def visit_all(tabs, addresses: list[str], axe=(), measure: str = "") -> list[Visit]:
    """`visit` each address; while the theme follows a window in one of two tabs, load the next.

    The tabs are open ones: they start no process anew, and load the theme and MathJax once. `axe`
    are the addresses at which axe looks.
    """
    results, before = [], iter(())
    for address, tab in zip(addresses, itertools.cycle(tabs), strict=False):
        steps = _steps(tab, address, address in axe, 5, measure)
        results.append(next(steps))
        next(before, None)
        before = steps
    next(before, None)
    return results


#: What does not depend on the window's width, and the desktop's; one call, so that nothing is
#: painted between.
EXAMINE = f"""async measure => {{
  await ({TYPESET})();
  const measured = measure ? (0, eval)(`(${{measure}})`)() : [];
  const loaded = performance.getEntriesByType('resource').map(e => e.name);
  await ({PREPARE})();
  const structure = ({STRUCTURE})(), contrast = ['light', 'dark'].map({CONTRAST});
  return {{measured, loaded, structure, contrast}};
}}"""


def _steps(page, url: str, axe: bool, patience: float, measure: str) -> Iterator[Visit]:
    """A visit, which another can follow while the theme sees that the window has changed."""
    result = Visit()
    page.set_viewport_size({"width": DESKTOP, "height": 900})
    with _watched(page, result):
        page.goto(url, wait_until="load")
        found = page.evaluate(EXAMINE, measure)
        structure, result.measured = found["structure"], found["measured"]
        result.loaded = [page.url, *found["loaded"]]
        result.formulas, result.figures = structure["formulas"], structure["figures"]
        result.tables = structure["tables"]
        result.texts = sum(contrast["looked"] for contrast in found["contrast"])
        for each in (structure, *found["contrast"]):
            result.faults |= each["found"]
        _look_at_width(page, result, DESKTOP, patience)
        if axe and (seen := _not_accessible(page)):
            result.faults["axe"] = seen
        page.set_viewport_size({"width": PHONE, "height": 900})
        yield result
        _look_at_width(page, result, PHONE, patience)
        page.evaluate(LEAVE)


#: What is drawn anew when the window changes is drawn in the next frame.
DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def _look_at_width(page, result: Visit, width: int, patience: float) -> None:
    page.evaluate(DRAWN)
    shape, end = page.evaluate(WIDTH), time.monotonic() + patience
    while shape["found"] and time.monotonic() < end:
        page.wait_for_timeout(50)
        shape = page.evaluate(WIDTH)
    result.scrolling, result.drawings = shape["scrolling"], shape["drawings"]
    result.faults |= {f"{k} ({width} px)": v for k, v in shape["found"].items()}


def _not_accessible(page) -> list[str]:
    """What axe finds; what it takes half of its time for, and contrast, are looked at elsewhere.

    That is faster, is done on every page, and of formulas too.
    """
    rules = {rule: {"enabled": False} for rule in ("color-contrast", "link-in-text-block")}
    options = {"resultTypes": ["violations"], "rules": rules, "preload": False, "selectors": False}
    # Formulas describe themselves.
    found = AXE.run(page, {"exclude": [["mjx-container"]]}, options).response["violations"]
    return [f"{v['id']}: {n['html'][:160]}" for v in found for n in v["nodes"]]


def search(page, address: str, term: str, seconds: float = 30) -> list[tuple[str, str]]:
    """Type a term into the site's search page; return the texts and addresses of the results."""
    errors = []

    def failed(error):
        errors.append(str(error))

    page.on("pageerror", failed)
    page.goto(f"{address}/search.html", wait_until="load")
    box = page.locator("main input[name=q], article input[name=q], input[name=q]").locator(
        "visible=true"
    )
    box.first.fill(term)
    box.first.press("Enter")
    page.wait_for_function(
        "() => { const said = document.querySelector('.search-summary')?.textContent || '';"
        " return /found|did not match/i.test(said) && !/^Searching/.test(said); }",
        timeout=1000 * seconds,
    )
    results = page.eval_on_selector_all(
        "#search-results ul.search > li > a", "all => all.map(a => [a.textContent, a.href])"
    )
    if results:
        page.wait_for_load_state("networkidle")  # excerpts of the pages found
    page.evaluate(LEAVE)  # it would mark the term on the next page
    page.remove_listener("pageerror", failed)
    assert not errors, errors
    return [tuple(result) for result in results]


def page_names(folder: Path, *inside: str) -> list[str]:
    """All pages of a site but the reference's, the generated ones included; or those of folders.

    Not the 404 page, nor those at old addresses that lead on: these have checks of their own.
    """
    moved = 'http-equiv="refresh"'
    found = [p for each in inside or (".", "beyond") for p in folder.joinpath(each).glob("*.html")]
    pages = [p for p in found if moved not in p.read_text(encoding="utf-8")]
    return sorted(p.relative_to(folder).as_posix() for p in pages if p.name != "404.html")


_ASSET = re.compile(
    r"<(?!img loading='lazy')(?:img|script|link)\b[^>]*?\b(?:src|href)=[\"']([^\"']+)", re.S
)


def page_weights(folder: Path) -> tuple[dict[str, int], int]:
    """Bytes of each page with what it alone uses, uncompressed; and of what pages share.

    A page's weight is that of its HTML, figures and tables to download being part of it, and of the
    files that no other page refers to, but for figures that load when their fold is opened. Shared
    are the files that two or more refer to, and all that the theme and MathJax may load from
    ``_static``: a browser fetches them once.
    """
    used: dict[Path, set[str]] = {}
    own = {}
    for name in [*page_names(folder), *page_names(folder, "reference")]:
        text = (folder / name).read_text(encoding="utf-8")
        own[name] = len(text.encode())
        for address in _ASSET.findall(text):
            parts = urlsplit(address)
            path = (folder / name).parent / parts.path
            if not parts.scheme and not parts.netloc and parts.path and path.is_file():
                used.setdefault(path.resolve(), set()).add(name)
    static = (folder / "_static").resolve()
    for path, names in used.items():
        if len(names) == 1 and path.suffix != ".html" and static not in path.parents:
            own[next(iter(names))] += path.stat().st_size
    shared = sum(p.stat().st_size for p in static.rglob("*") if p.is_file())
    return own, shared


def too_heavy(folder: Path) -> dict[str, int]:
    """The pages above `HEAVIEST`, with their weights."""
    return {name: size for name, size in page_weights(folder)[0].items() if size > HEAVIEST}
