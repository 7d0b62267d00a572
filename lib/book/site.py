"""What a site needs beside its pages: address, social tags, 404 page, lighter figures, Colab.

Nothing here knows Sphinx; :mod:`lib.book.sphinx_ext` calls it.
"""

import base64
import html
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from string import Template
from typing import Any
from urllib.parse import quote, urlsplit

import nbformat

from lib.book.exercises import LESSON, by_itself

#: Width and height of the social card, as the networks recommend them.
CARD = (1200, 630)
CARD_ALT = "Title of the book beside a curve of accuracy against the fraction of points answered"


def site_address(configured: str, repository: str) -> str:
    """Return the absolute address of the site, ending in a slash; empty if nobody knows it."""
    if configured:
        parts = urlsplit(configured)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(
                f"address of the site = {configured!r} must begin with https:// and name a host"
            )
        return configured.rstrip("/") + "/"
    if not repository:
        return ""
    owner, _, name = repository.partition("/")
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def shorten(text: str, length: int = 160) -> str:
    """Return a text on one line, cut after a whole word if longer than ``length`` characters."""
    flat = " ".join(text.split())
    if len(flat) <= length:
        return flat
    return flat[: length - 1].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"


def social_tags(title: str, description: str, site: str, address: str, page: str) -> str:
    """HTML of the description and of what social networks show of a page."""
    named = {"description": description, "twitter:card": "summary"}
    graph = {
        "og:type": "website" if page == "index.html" else "article",
        "og:title": title,
        "og:description": description,
        "og:site_name": site,
    }
    if address:
        named["twitter:card"] = "summary_large_image"
        graph |= {
            "og:url": address + page,
            "og:image": f"{address}_static/card.png",
            "og:image:width": str(CARD[0]),
            "og:image:height": str(CARD[1]),
            "og:image:alt": CARD_ALT,
        }
    tags = [f'<meta name="{n}" content="{html.escape(v)}" />' for n, v in named.items()]
    tags += [f'<meta property="{n}" content="{html.escape(v)}" />' for n, v in graph.items()]
    return "\n".join(["", *tags, ""])


def footer_text(version: str, dates: list[str]) -> str:
    """Return the footer's line: the version, and when what the page shows was executed.

    Dates of execution and not of the build: building anew without a change changes no page.
    """
    days = sorted(date[:10] for date in dates)
    if not days:
        return f"Version {version}."
    span = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    return f"Version {version}. Computed {span} (UTC)."


_NOT_FOUND = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="robots" content="noindex" />
<title>Page not found - $title</title>
<style>
:root { color-scheme: light dark; --ground: #ffffff; --ink: #14181e; --link: #0a5c82; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14181e; --ink: #e6e6e6; --link: #7cc4ea; }
}
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.6;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 38rem; margin: 0 auto; padding: 12vh 1.25rem 2rem; }
h1 { line-height: 1.25; }
a { color: var(--link); }
</style>
</head>
<body>
<main>
<h1>Page not found</h1>
<p>There is no page at this address in <em>$title</em>. It may have been renamed.</p>
<ul>
<li><a href="$root">The book's front page</a>, with its chapters</li>
<li><a href="${root}${search}">Search the book</a></li>
</ul>
</main>
</body>
</html>
""")


def not_found_page(title: str, address: str, search: str = "search.html") -> str:
    """HTML of ``404.html``, which a host serves for any missing address, however deep.

    It therefore needs no other file, and its links begin at the host's root: with the path of
    ``address``, or with ``/`` where the address is not known.
    """
    root = urlsplit(address).path or "/"
    names = {"title": title, "root": quote(root), "search": search}
    return _NOT_FOUND.substitute({name: html.escape(text) for name, text in names.items()})


#: Old addresses of pages, and the page that is there now or stands in for what is gone.
MOVED = {
    "proofs": "maintainers",
    "status": "maintainers",
    "benchmarks": "maintainers",
    "suitability_stress": "suitability_guarantee",
    "choosing": "beyond/choosing",
    "promise": "beyond/promise",
    "gap": "beyond/gap",
    "sctd_map": "beyond/sctd_map",
    "suitability_time": "beyond/suitability_time",
    "refusals": "beyond/refusals",
    "six_lenses": "beyond/six_lenses",
    "curves": "beyond/curves",
} | {
    f"reference/{package}_{subject}": f"reference/{package}"
    for package, subjects in {
        "selective": ("scores", "curves", "uncertainty"),
        "suitability": ("signals", "filter", "labels", "time"),
        "audit": ("intervals", "attacks", "canaries"),
        "counterfactual": ("estimate", "limits", "learners", "scores"),
        "report": ("files", "analyses"),
        "privacy": ("accounting", "labels", "votes"),
        "training": ("config", "engines", "jobs"),
        "data": ("store", "images", "papers"),
        "runs": ("jobs", "store"),
    }.items()
    for subject in subjects
}


def redirect_page(title: str, address: str) -> str:
    """HTML of a page that has moved to an address: it leads there by itself, or by a link."""
    to = html.escape(address)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8" />\n'
        '<meta name="robots" content="noindex" />\n'
        f'<meta http-equiv="refresh" content="0; url={to}" />\n'
        f"<title>Moved - {html.escape(title)}</title>\n</head>\n"
        f'<body>\n<p>This page has moved: <a href="{to}">follow it</a>.</p>\n</body>\n</html>\n'
    )


# ---------------------------------------------------------------------- pages

_FIGURE = re.compile(r"(src|srcset)='data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)")
_PATH = re.compile(r'(?<=\sd=")[^"]+')
_PLACE = re.compile(r'(?<=\s)([xy]=")(-?\d+\.\d+)(?=")')
_NUMBER = re.compile(r"-?\d+\.\d{3,}")


def minify_svg(page: str) -> str:
    """Shrink the SVG figures in a piece of HTML, with nothing to be seen of it.

    What goes is in :func:`light_svg`. The data address holds text instead of base64, which takes a
    third more and hardly compresses.
    """
    return _FIGURE.sub(lambda found: f"{found[1]}='{_light_address(*found.groups())}", page)


_NAMED = re.compile(r'(\sid="|href="#|url\(#)([^")]+)')


def _light_address(where: str, encoded: str) -> str:
    svg = light_svg(base64.b64decode(encoded).decode("utf-8"))
    # Letters and marks have long names and are used by the hundred; nothing else knows the names.
    names: dict[str, str] = {}
    svg = _NAMED.sub(lambda named: named[1] + names.setdefault(named[2], f"x{len(names)}"), svg)
    # Kept as they are: what neither an address nor an attribute in single quotation marks minds;
    # a blank ends the address in a set of sources, and would be three letters: paths have commas.
    blank = " " if where == "src" else ""
    if not blank:
        svg = _PATH.sub(lambda path: re.sub(r"(?<=[\d.]) (?=[\d.])", ",", path[0]), svg)
    return "data:image/svg+xml," + quote(svg, safe=blank + '!"$()*+,-./:;<=>?@[]^_`{|}~')


def svgs_of(page: str) -> dict[str, str]:
    """The figure in a piece of HTML: its ``svg``, and ``wide`` if it is laid out for that, too."""
    names = {"src": "svg", "srcset": "wide"}
    found = {names[each[1]]: each[2] for each in _FIGURE.finditer(page)}
    return {name: base64.b64decode(svg).decode("utf-8") for name, svg in found.items()}


def light_svg(svg: str) -> str:
    """An SVG that looks the same: coordinates to a hundredth of a point, and nothing said twice.

    matplotlib writes coordinates to a millionth of a point, points of a curve that lie on the line
    between their neighbors (here: to a fortieth of a point), a style at each of a hundred equal
    markers, names of groups, comments, line breaks and who made it.
    """
    svg = _HEAD.sub("", svg).replace("xlink:href=", "href=")
    svg = _PATH.sub(lambda path: light_path(path[0]), svg)
    svg = _PLACE.sub(lambda place: place[1] + _rounded(place[2]), svg)
    svg = _MOVED.sub(lambda moved: _NUMBER.sub(lambda n: _rounded(n[0]), moved[0]), svg)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\s*\n\s*", " ", svg)
    svg = re.sub(r">\s+<", "><", svg).strip()
    svg = _SAME_STYLE.sub(_one_style, svg)
    return _STYLE.sub(lambda style: re.sub(r"([:;])\s+", r"\1", style[0]), svg)


_HEAD = re.compile(
    r'<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>| xmlns:xlink="[^"]*"|(?<=<g) id="[^"]*"',
    flags=re.DOTALL,
)
_MOVED = re.compile(r"translate\([^)]*\)")
_STYLE = re.compile(r'(?<=\sstyle=")[^"]*')
_MARKER = r'<use href="#\w+" x="[-\d.]+" y="[-\d.]+"'
_SAME_STYLE = re.compile(rf'{_MARKER} style="([^"]*)"/>(?:{_MARKER} style="\1"/>)+')


def _one_style(markers: re.Match[str]) -> str:
    """Markers of one style, with the style said once."""
    return f'<g style="{markers[1]}">' + re.sub(r' style="[^"]*"', "", markers[0]) + "</g>"


_THIN = 2.5  # hundredths of a point: how far a line may move
_STEP = re.compile(r"([MLQC])((?:[\s,]*-?[\d.]+(?:e-?\d+)?)+)|[zZ]")


def light_path(path: str) -> str:
    """A path of M, L, Q, C and z in relative coordinates, its lines without needless points.

    A path that has other commands, relative ones among them, is left as it is.
    """
    path = " ".join(path.split())
    if re.sub(r"\s", "", _STEP.sub("", path)):
        return path
    text, here, start, implied = "", (0, 0), (0, 0), ""
    for command, points in _thinned(_steps(path)):
        if command == "z":
            text, here, implied = text + "z", start, ""
            continue
        text += command.lower() * (command != implied)
        implied = "L" if command == "M" else command
        for number, point in enumerate(points):
            text += _relative(point[0] - here[0], text) + _relative(point[1] - here[1], "0")
            if number == len(points) - 1:
                here = point
        start = here if command == "M" else start
    return text


def _relative(hundredths: int, before: str) -> str:
    """A number as it may follow on what stands before it."""
    text = _rounded(hundredths / 100)
    return text if text.startswith("-") or not before[-1:].isdigit() else f" {text}"


_Point = tuple[int, int]


def _steps(path: str) -> list[tuple[str, list[_Point]]]:
    """Commands of a path, each with its points in hundredths, absolute."""
    found: list[tuple[str, list[_Point]]] = []
    size = {"M": 1, "L": 1, "Q": 2, "C": 3}
    for step in _STEP.finditer(path):
        if step[1] is None:
            found.append(("z", []))
            continue
        numbers = [round(100 * float(n)) for n in re.findall(r"-?[\d.]+(?:e-?\d+)?", step[2])]
        points = list(zip(numbers[::2], numbers[1::2], strict=True))
        for at in range(0, len(points), size[step[1]]):
            command = "L" if step[1] == "M" and at else step[1]
            found.append((command, points[at : at + size[step[1]]]))
    return found


def _thinned(steps: list[tuple[str, list[_Point]]]) -> list[tuple[str, list[_Point]]]:
    """The steps without those of each run of lines that Douglas and Peucker's rule leaves out."""
    found, run = [], []
    for step in [*steps, ("end", [])]:
        if step[0] != "L" and run:
            kept = _needed([found[-1][1][-1], *(points[0] for _, points in run)])
            found += [step for i, step in enumerate(run, 1) if i in kept]
            run = []
        (run if step[0] == "L" else found).append(step)
    return found[:-1]


def _needed(points: list[_Point]) -> set[int]:
    """Which points of a line are more than `_THIN` off the line through the others."""
    kept, pending = {0, len(points) - 1}, [(0, len(points) - 1)]
    while pending:
        first, last = pending.pop()
        (x, y), (u, v) = points[first], points[last]
        square = (u - x) ** 2 + (v - y) ** 2
        far, at = 0.0, 0
        for i in range(first + 1, last):
            p, q = points[i][0] - x, points[i][1] - y
            along = min(1.0, max(0.0, (p * (u - x) + q * (v - y)) / square)) if square else 0.0
            off = math.hypot(p - along * (u - x), q - along * (v - y))
            if off > far:
                far, at = off, i
        if far > _THIN:
            kept.add(at)
            pending += [(first, at), (at, last)]
    return kept


def _rounded(number: str | float) -> str:
    text = f"{float(number):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


# Sphinx sets a long signature as a list of definitions that defines nothing.
_SIGNATURE = re.compile(
    r'<dl>\s*((?:<dd><em class="sig-param">.*?</dd>\s*)+)</dl>', flags=re.DOTALL
)


def _as_lines(signature: re.Match[str]) -> str:
    lines = signature[1].replace("<dd>", "<div>").replace("</dd>", "</div>")
    return f'<div class="companion-signature">{lines}</div>'


#: Names in the text: a long one breaks between its words.
_CODE = re.compile(r'(?<=<span class="pre">)[\w.]+(?=</span>)')
_REGION = re.compile(r"""(role=['"]region['"][^>]*? aria-label=)(['"])(.*?)\2""")


def named_regions(body: str) -> str:
    """Make boxes with tables of the prose reachable by keyboard, and name all boxes apart."""
    body = body.replace(' role="doc-biblioentry"', ' role="listitem"')  # as their list needs
    body = _SIGNATURE.sub(_as_lines, body)
    body = _CODE.sub(lambda code: re.sub(r"(?<=[._])(?=[a-zA-Z])", "<wbr>", code[0]), body)
    body = body.replace(
        '<div class="pst-scrollable-table-container">',
        '<div class="pst-scrollable-table-container" role="region" tabindex="0" '
        'aria-label="Table in the text">',
    )
    counts: Counter[str] = Counter()

    def named(region: re.Match[str]) -> str:
        before, quote, name = region.groups()
        counts[name] += 1
        number = f" ({counts[name]})" if counts[name] > 1 else ""
        return f"{before}{quote}{name}{number}{quote}"

    return _REGION.sub(named, body)


_LINK = re.compile(r'<a class="reference internal"([^>]*?) href="([^"]+)"([^>]*)>')


def with_cards(body: str, cards: Mapping[str, str]) -> str:
    """Describe links to the glossary and the bibliography: hovered or focused, they show a card.

    `cards` are texts by the end of an address, such as ``glossary.html#term-coverage``.  Links to
    the literature have their text as a title, which only a mouse gets to see.
    """

    def described(link: re.Match[str]) -> str:
        before, address, after = link.groups()
        title = re.search(r' title="([^"]*)"', after)
        card = title[1] if title else html.escape(cards.get(address.rpartition("/")[2], ""))
        if not card or not re.search(r"(glossary|bibliography)\.html#", address):
            return link[0]
        after = after.replace(title[0], "") if title else after
        name = f'class="reference internal companion-card"{before}'
        return f'<a {name} href="{address}"{after} aria-description="{card}">'

    return _LINK.sub(described, body)


def plain_math(tex: str) -> str:
    """A short formula in TeX as plain text: "Beta(1/2, 1/2)", "ε"."""
    tex = re.sub(r"\\frac *({[^{}]*}|\w) *({[^{}]*}|\w)", r"\1/\2", tex)
    return re.sub(r"[{}]", "", re.sub(r"\\([a-zA-Z]+|.)", _letter, tex))


def _letter(command: re.Match[str]) -> str:
    name = command[1].removeprefix("var")
    case = "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {case} LETTER {name.upper()}")
    except KeyError:
        return ""


def folding(tags: Sequence[str]) -> list[str]:
    """Tags of a code cell that close it: open on a page are lessons, and cells of exercises.

    Closed code is there for who asks for it (``code.js``).
    """
    return [*tags] if by_itself(tags) or LESSON in tags else [*tags, "hide-input"]


def name_toggles(context: dict[str, Any]) -> None:
    """Name the sidebar's buttons that unfold a section: the theme shows an arrow only."""
    made = context.get("generate_toctree_html")
    if made is None:
        return

    def named(kind: str, *args: Any, **options: Any) -> Any:
        found = made(kind, *args, **options)
        if kind != "sidebar":
            return found
        return str(found).replace("<summary>", '<summary aria-label="Pages below">')

    context["generate_toctree_html"] = named


def drop_thebe(context: dict[str, Any]) -> None:
    """Leave out Thebe: it is not used, would load from another host, and its script fails."""
    for kind in ("script_files", "css_files"):
        context[kind] = [
            file
            for file in context[kind]
            if "thebe" not in f"{file.filename}{file.attributes.get('body')}".lower()
        ]


# ---------------------------------------------------------------------- notebooks


def notebook_links(repository: str, folder: str, page: str, chapter: str) -> dict[str, str]:
    """Where a chapter's executed notebook is, and where a reader can run it."""
    links = {"Executed notebook (.ipynb)": f"{folder}/{chapter}.ipynb"}
    if repository:
        lab = f"https://mybinder.org/v2/gh/{repository}/HEAD?urlpath=lab/tree"
        colab = f"https://colab.research.google.com/github/{repository}"
        links["Binder"] = f"{lab}/book/{page}.py"
        links["Colab"] = f"{colab}/blob/notebooks/{chapter}.ipynb"
    return links


def launch_buttons(links: Mapping[str, str]) -> dict[str, Any]:
    """Download and launch buttons of a chapter, as the theme takes them."""
    return {
        "type": "group",
        "buttons": [
            {"type": "link", "text": text, "url": url, "tooltip": text, "icon": "fas fa-rocket"}
            for text, url in links.items()
        ],
        "icon": "fas fa-rocket",
        "tooltip": "Download or run this chapter",
        "label": "launch-buttons",
    }


def with_arxiv(body: str) -> str:
    """Lead from the numbers of preprints to them."""
    return re.sub(
        r"\barXiv:(\d{4}\.\d{4,5})\b", r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', body
    )


_COLAB = """# On Colab: fetch the book at the commit that this notebook was made from; install it.
# Elsewhere this cell does nothing. Should Colab ask to restart the session, do, then go on below.
import sys

if "google.colab" in sys.modules:
    %cd -q /content
    !test -d {name} || git clone --quiet https://github.com/{repository} {name}
    %cd -q /content/{name}
    !git checkout --quiet {commit}
    %pip install --quiet --editable .
    sys.path.insert(0, "/content/{name}")"""


def colab_cell(repository: str, commit: str) -> nbformat.NotebookNode:
    """Return the first cell of a notebook for Colab: it installs the package from the repository.

    The whole repository is fetched, since a chapter also reads ``params`` and ``book/claims.yml``.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise ValueError(f"repository = {repository!r} must be owner/name")
    if not re.fullmatch(r"[0-9a-f]{7,64}", commit):
        raise ValueError(f"commit = {commit!r} must be hexadecimal digits")
    name = repository.partition("/")[2]
    source = _COLAB.format(repository=repository, name=name, commit=commit)
    metadata: Mapping[str, Any] = {"tags": ["colab"]}
    return nbformat.v4.new_code_cell(source, id="colab", metadata=metadata)
