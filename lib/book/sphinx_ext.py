"""Sphinx extension of the book: executed chapters, live values, ledger, redirects.

Chapters are executed (or found in the cache) when Sphinx starts, before anything is
read or written: a failing cell therefore leaves the previous site as it was.
"""

import html
import os
import re
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from filelock import FileLock
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.fileutil import copy_asset

import lib
from lib.book import bibliography, drawings
from lib.book.assets import asset_packages, copy_assets, lighten_pages
from lib.book.benchmarks import benchmarks_html
from lib.book.beside import beside_html
from lib.book.chapters import chapter_files, read_chapter
from lib.book.claims import judged_anew, read_claims
from lib.book.execute import OWN_MIMES, BuildError, execute_book, jobs_at_a_time
from lib.book.failing import leave_other_hosts, require_output, say_once
from lib.book.ledger import Ledger, claim_mark_html, ledger_html, runs_of_page, tally_html
from lib.book.notebooks import (
    executed_notebook,
    quoted_figures,
    quoted_values,
    shown_first,
    surroundings,
    whole,
)
from lib.book.pages import Page, framed, larger_runs
from lib.book.records import git_output, read_records, repository
from lib.book.render import above_html, picture_html
from lib.book.site import (
    MOVED,
    colab_cell,
    drop_thebe,
    folding,
    footer_text,
    launch_buttons,
    light_svg,
    minify_svg,
    name_toggles,
    named_regions,
    not_found_page,
    notebook_links,
    plain_math,
    redirect_page,
    shorten,
    site_address,
    social_tags,
    with_arxiv,
    with_cards,
)
from lib.book.statements import read_settings, read_statements
from lib.book.unchanged import forget, is_damaged, leave_note, state_of_pages, state_of_writers
from lib.book.words import formatted
from lib.runs import fingerprint

logger = logging.getLogger(__name__)

_STATIC = Path(lib.__file__).parent / "book" / "static"

# The reader is handed a chapter's text and nothing else, so pages are found by it.
_pages_by_text: dict[str, Page] = {}


def read_executed(text: str) -> nbformat.NotebookNode:
    """Combine a chapter's prose with the outputs that its page shows (MyST-NB's reader)."""
    notebook = read_chapter(text)
    if text not in _pages_by_text:
        raise ExtensionError("a .py file in the book that _toc.yml does not list as a chapter")
    page = _pages_by_text[text]
    done = page.done
    merged, pending = [], list(done.cells)
    above = shown_first(notebook)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            merged.append(cell)
            continue
        # papermill puts its parameters after the declared ones. The page shows the
        # parameters in effect as a table, so its cell would only repeat them.
        if "injected-parameters" in pending[0]["tags"]:
            pending.pop(0)
        executed = pending.pop(0)
        if executed["source"] != cell.source:
            raise ExtensionError(f"chapter {done.chapter}: outputs belong to other code")
        merged.append(_code_cell(executed, cell["id"], page, above))
        merged[-1].source = merged[-1].source.replace("  # fmt: skip", "")
    notebook.cells = framed(merged, page)
    return notebook


#: Builders of a site, and those whose pages are one file or are only checked.
SITES = ("html", "dirhtml")
BUILDERS = (*SITES, "singlehtml", "linkcheck")


def _code_cell(
    executed: dict[str, Any], cell_id: str, page: Page, above: Collection[str] = ()
) -> nbformat.NotebookNode:
    outputs, parts = [], [p for p in page.parts(executed) if p["kind"] != "parameters"]
    verdicts = [part for part in parts if part["kind"] == "verdict"]
    for part in parts:
        output = part.get("output", {"output_type": "display_data", "metadata": {}})
        data = {k: v for k, v in output.get("data", {}).items() if k not in OWN_MIMES}
        if part["kind"] == "figure" and part["name"] in above:
            data["text/html"] = above_html(part["name"])
        elif part in verdicts:
            if part is not verdicts[0]:
                continue
            data["text/html"] = page.lines([each["id"] for each in verdicts])
        elif part["kind"] != "other":
            data["text/html"] = page.html(part)
        if "text/html" in data:
            data["text/html"] = minify_svg(data["text/html"])
        if data.get("text/html") != "":
            seen = {"data": data, "metadata": {}} if data else {}
            outputs.append(nbformat.from_dict(output | seen))
    return nbformat.v4.new_code_cell(
        executed["source"],
        id=cell_id,
        outputs=outputs,
        execution_count=executed["execution_count"],
        metadata={"tags": folding(executed["tags"])},
    )


def _role(make: Callable[[Any, str], nodes.Node]) -> SphinxRole:
    """A role whose function gives a node; what that refuses stops the build."""

    class Part(SphinxRole):
        def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
            """Return the part of the sentence."""
            try:
                return [make(self.env, self.text)], []
            except (KeyError, ValueError) as error:
                raise ExtensionError(f"{self.get_location()}: {error.args[0]}") from None

    return Part()


def _quoted(env: Any, quoted: str) -> nodes.Node:
    """``{value}`chapter.name:.3f` ``: a number of the run that the chapter's page shows.

    ``{value}`chapter@standard.name:.3f` `` is the number of the recorded run of that name. Formats
    are Python's, and ``duration``.
    """
    text = _value(env.app, quoted)
    return nodes.inline(text, text, classes=["companion-value"])


def _value(app: Sphinx, quoted: str, own: bool = False) -> str:
    """The text of ``chapter.name:format``, or of the recorded ``chapter@run.name:format``.

    If `own`, this build takes the place of the run that the chapter's page shows.
    """
    where, _, spec = quoted.partition(":")
    source, _, name = where.rpartition(".")
    chapter, at, run = source.partition("@")
    page: Page | None = app.companion_pages.get(chapter)
    values = page and (page.done.values if own else page.values)
    if page is not None and at:
        values = page.records.get(run, {}).get("values", {})
    try:
        return formatted((values or {})[name], spec)
    except KeyError:
        known = sorted(app.companion_pages) if values is None else sorted(values)
        raise KeyError(f"no value {where!r}; known are {', '.join(known)}") from None
    except ValueError as error:
        raise ValueError(f"value {quoted!r}: {error}") from None


def _directive(
    make: Callable[..., str], arguments: int = 0, optional: int = 0
) -> type[SphinxDirective]:
    """A directive whose function gives raw HTML; what that refuses stops the build."""

    class Part(SphinxDirective):
        required_arguments, optional_arguments = arguments, optional

        def run(self) -> list[nodes.Node]:
            """Return the part of the page."""
            try:
                return _sections(make(self.env, *self.arguments))
            except ValueError as error:
                raise ExtensionError(f"{self.get_location()}: {error}") from None

    return Part


def _sections(page: str) -> list[nodes.Node]:
    """Nodes of HTML, a section from each heading on: the page's contents list sections only."""
    first, *rest = re.split(r"<h2 id='(.*?)'>(.*?)</h2>", page)
    found: list[nodes.Node] = [nodes.raw("", first, format="html")]
    for name, title, content in zip(*(rest[i::3] for i in range(3)), strict=True):
        inside = nodes.title("", html.unescape(title)), nodes.raw("", content, format="html")
        found.append(nodes.section("", *inside, ids=[name]))
    return found


def _picture(env: Any, quoted: str) -> str:
    """``chapter.figure``, as the chapter's page has it."""
    chapter, _, name = quoted.partition(".")
    pages: dict[str, Page] = env.app.companion_pages
    try:
        found = pages[chapter].picture(name)
    except KeyError:
        known = (f"{page}.{figure}" for page in pages for figure in pages[page].done.figures)
        raise ValueError(f"no figure {quoted!r}; known are {', '.join(sorted(known))}") from None
    return picture_html(light_svg(found["svg"]).encode(), found["alt"])


def _result(env: Any, name: str) -> str:
    """A figure of the page itself, before the cell that makes it: the chapter's one result."""
    page = env.app.companion_pages.get(env.app.companion_chapters.get(env.docname))
    if page is None or not (found := page.figure(name)):
        raise ValueError(f"the page {env.docname} makes no figure {name!r}")
    return minify_svg(found)


def _ledger(env: Any) -> str:
    """All statements and claims, and the verdicts on them."""
    return ledger_html(_evidence(env.app, env.docname))


def _tally(env: Any, paper: str) -> str:
    """How many statements of a paper stand, and which do not."""
    return tally_html(_evidence(env.app, env.docname), paper)


def _benchmarks(env: Any, beside: str = "") -> str:
    """What `make bench` has recorded, of all software or of one."""
    env.note_dependency(str(Path(env.app.srcdir, "records", "benchmarks.json")))
    return benchmarks_html(Path(env.app.srcdir), beside)


def _beside(env: Any) -> str:
    """The claims that this build and a record settle at the same size."""
    return beside_html(env.app.companion_pages)


def _claim(env: Any, name: str) -> nodes.Node:
    """``{claim}`P3-F1-low` ``: the verdict on a claim, as a mark that links to it."""
    ledger = _evidence(env.app, env.docname)
    if name not in ledger.claims:
        raise ValueError(f"no claim {name!r} in the ledger")
    return nodes.raw("", claim_mark_html(ledger, ledger.claims[name]), format="html")


def _evidence(app: Sphinx, docname: str) -> Ledger:
    """All statements and claims, with addresses as seen from a page."""
    pages: dict[str, Page] = app.companion_pages
    verdicts = {i: of for page in pages.values() for i, of in page.verdicts.items()}
    runs = {name: runs_of_page(page) for name, page in pages.items()}
    of = app.companion_statements, app.companion_claims, verdicts, _addresses(app, docname), runs
    return Ledger(*of, *app.companion_settings)


class CloneDirective(SphinxDirective):
    """The ``clone`` directive: where the code is and how to get it, or that nobody has said so."""

    def run(self) -> list[nodes.Node]:
        """Return the address and the command as a code block, or a sentence."""
        repository = self.env.app.companion_repository
        if not repository:
            return [nodes.paragraph("", _UNKNOWN)]
        address, folder = f"https://github.com/{repository}", repository.rpartition("/")[2]
        command = f"git clone {address}\ncd {folder}"
        link = nodes.reference("", address, refuri=address)
        return [
            nodes.paragraph("", "", nodes.Text("The repository is "), link, nodes.Text(".")),
            nodes.literal_block(command, command, language="sh"),
        ]


_UNKNOWN = "Get a clone of the repository from whoever gave you this copy of the site."


def _ledger_of(app: Sphinx, chapter: str) -> str:
    """The address of the ledger's page, as seen from a chapter's: known when pages are read."""
    page = next(page for page, name in app.companion_chapters.items() if name == chapter)
    return app.builder.get_relative_uri(page, "reproduces")


def _addresses(app: Sphinx, docname: str) -> dict[str, str]:
    """Of the chapters, and of the ledger's page."""
    pages = {name: page for page, name in app.companion_chapters.items()}
    pages["reproduces"] = "reproduces"
    return {name: app.builder.get_relative_uri(docname, page) for name, page in pages.items()}


# ---------------------------------------------------------------------- build events


def _lock(app: Sphinx, config: Any) -> None:
    """One build of a site at a time; a second one waits. Also add what the site looks like."""
    if app.companion_repository:
        address = f"https://github.com/{app.companion_repository}"
        config.html_theme_options |= {"repository_url": address, "use_repository_button": True}
    out = Path(app.outdir)
    out.mkdir(parents=True, exist_ok=True)
    app.companion_lock = FileLock(out.parent / ".companion.lock")
    app.companion_lock.acquire()
    leave_other_hosts(config)
    if "external_toc_path" in config:  # one of its own for each spelling of the folder
        toc = Path(app.srcdir, config.external_toc_path)
        config.external_toc_path = str(toc.resolve())
    config.html_static_path.append(str(_STATIC))
    config.templates_path.append(str(_STATIC.parent / "templates"))
    parts = ("logo", "icon-links", "search-button-field", "sbt-sidebar-nav")
    config.html_sidebars = {"**": [f"{part}.html" for part in parts]}
    config.html_logo = config.html_favicon = str(_STATIC / "favicon.svg")
    config.html_theme_options |= {"logo": {"text": config.html_title, "alt_text": "Home"}}
    given = config.html_baseurl or os.environ.get("COMPANION_SITE", "")
    try:
        config.html_baseurl = site_address(given, app.companion_repository)
    except ValueError as error:
        raise ExtensionError(str(error)) from None


def _begin(app: Sphinx) -> None:
    """Take the last build's note away; if files of its site were touched, write all pages."""
    if is_damaged(Path(app.srcdir), Path(app.outdir)):
        _unfinished(app).touch()
    forget(Path(app.outdir))


def _execute(app: Sphinx) -> None:
    """Execute what has changed, before Sphinx reads a single page."""
    book = Path(app.srcdir)
    if (book / "book" / "_toc.yml").exists():
        raise ExtensionError(f"the book is the folder book of this one: build {book / 'book'}")
    if app.builder.name not in BUILDERS:
        raise ExtensionError(
            f"the builder {app.builder.name} cannot show figures and tables of this book, which are"
            f" HTML; those that can are {', '.join(BUILDERS)} (pdfhtml makes a PDF of them)"
        )
    asset_packages()
    profile = app.config.companion_profile
    app.companion_pages = {}
    try:
        _begin_parallel(app)
        executed = execute_book(book, profile)
        app.companion_claims = claims = read_claims(book / "claims.yml")
        app.companion_statements = stated = read_statements(book / "statements.yml", claims)
        statements = {i: each for each in stated.values() for i in each.claims}
        app.companion_settings = read_settings(book / "settings.yml")
        values, figures = quoted_values(book), quoted_figures(book)
        build = _shows_build()
        files = chapter_files(book)
        app.companion_chapters = {
            path.relative_to(book).with_suffix("").as_posix(): name for name, path in files.items()
        }
        for name, path in files.items():
            larger = larger_runs(read_records(book, name), executed[name].profile)
            runs = {each: judged_anew(claims, run) for each, run in larger.items()}
            wanted = values.get(name, ()), figures.get(name, ())
            of = executed[name], runs, claims, path, *wanted, build
            app.companion_pages[name] = Page(*of, statements, partial(_ledger_of, app, name))
    except (BuildError, ValueError) as error:
        raise ExtensionError(str(error)) from error
    _pages_by_text.clear()
    for name, path in chapter_files(book).items():
        _pages_by_text[path.read_text(encoding="utf-8")] = app.companion_pages[name]
    reused = sum(done.cached for done in executed.values())
    logger.info("chapters: %d executed, %d unchanged", len(executed) - reused, reused)


#: Extensions of Jupyter Book that do not say it: what they do, they do before and after reading.
_SAFE = ("sphinx_jupyterbook_latex", "sphinx_multitoc_numbering")


def _begin_parallel(app: Sphinx) -> None:
    """Have pages read and written as many at a time as chapters are executed."""
    app.parallel = max(app.parallel, jobs_at_a_time())
    for name in _SAFE:
        if name in app.extensions:
            app.extensions[name].parallel_read_safe = True


def _shows_build() -> bool:
    """Whether pages show this build, though a larger run is recorded."""
    asked = os.environ.get("COMPANION_SHOW", "")
    if asked not in ("", "build"):
        raise ValueError(f"COMPANION_SHOW = {asked!r} must be build or empty")
    return asked == "build"


def _outdated(app: Sphinx, env: Any, added: set, changed: set, removed: set) -> list[str]:
    """Read every page anew when a chapter's result, a claim, a record or what writes them changed.

    Pages quote each other's values, so no page can be told apart as untouched; the
    same holds after a build that was interrupted while it wrote pages.
    """
    state = fingerprint(
        {
            "keys": {
                name: [page.done.key, page.done.finished]
                for name, page in app.companion_pages.items()
            },
            "claims": [repr(claim) for claim in app.companion_claims.values()],
            "statements": [repr(each) for each in app.companion_statements.values()],
            "settings": repr(app.companion_settings),
            "records": {
                name: [page.records, page.name] for name, page in app.companion_pages.items()
            },
            "repository": app.companion_repository,
            # What a page says in HTML of its own leads to others by the builder's addresses.
            "site": [app.config.html_baseurl, state_of_writers(), app.builder.name],
        }
    )
    unfinished = _unfinished(app)
    stale = unfinished.exists() or getattr(env, "companion_state", None) != state
    env.companion_state = state
    unfinished.touch()  # until `_finish`: pages may from now on be half-written
    # By content: Sphinx sees only files that are newer than when it read them, and a restored one
    # may be older.
    before = getattr(env, "companion_sources", {})
    env.companion_sources = state_of_pages(
        {name: Path(env.doc2path(name)) for name in sorted(env.found_docs)}
    )
    if stale:
        return sorted(env.found_docs)
    return [name for name, digest in env.companion_sources.items() if before.get(name) != digest]


def _unfinished(app: Sphinx) -> Path:
    return Path(app.outdir).parent / ".companion-unfinished"


def _finish(app: Sphinx, exception: Exception | None) -> None:
    try:
        if exception is None and app.builder.format == "html":
            copy_assets(Path(app.outdir, "_static"))
        if exception is None and app.builder.name in SITES:
            lighten_pages(Path(app.outdir))
            _write_notebooks(app)
            search = app.builder.get_target_uri("search")
            page = not_found_page(app.config.html_title, app.config.html_baseurl, search)
            Path(app.outdir, "404.html").write_text(page, encoding="utf-8")
            _write_redirects(app)
            if not app._warncount:  # else the next build shall warn as well
                _unfinished(app).unlink(missing_ok=True)
            if app.builder.name == "html" and not app._warncount:
                executed = {name: page.done for name, page in app.companion_pages.items()}
                leave_note(Path(app.srcdir), Path(app.outdir), executed)
    finally:
        app.companion_lock.release()


def _write_redirects(app: Sphinx) -> None:
    """Pages at old addresses, unless a book has a page of that name, or lacks the new one."""
    for old, new in MOVED.items():
        if old not in app.env.found_docs and new in app.env.found_docs:
            page = redirect_page(app.config.html_title, app.builder.get_relative_uri(old, new))
            path = Path(app.builder.get_outfilename(old))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page, encoding="utf-8")


def _write_notebooks(app: Sphinx) -> None:
    """Executed notebooks, for download and, where the repository is known, for Colab.

    As papermill writes them, and what nbval needs to compare them elsewhere.
    """
    book, folder = Path(app.srcdir), Path(app.outdir) / "notebooks"
    folder.mkdir(exist_ok=True)
    commit = app.companion_commit
    for name, path in chapter_files(book).items():
        cells = app.companion_pages[name].done.cells
        notebook = executed_notebook(path.read_text(encoding="utf-8"), cells)
        page = path.relative_to(book).with_suffix("").as_posix()
        around = surroundings(book, page, app.config.html_baseurl)
        whole(notebook, partial(_value, app, own=True), around)
        if commit:
            notebook.cells.insert(0, colab_cell(app.companion_repository, commit))
        nbformat.validate(notebook)
        nbformat.write(notebook, folder / f"{name}.ipynb")
    copy_asset(Path(lib.__file__).parent / "book" / "nbval.cfg", folder)


def _complete_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give a page what this book adds to the theme, and take away what it does not use."""
    if chapter := app.companion_chapters.get(pagename):
        folder = context["pathto"]("notebooks", 1)
        links = notebook_links(app.companion_repository, folder, pagename, chapter)
        context["header_buttons"].append(launch_buttons(links))
        source = {"Source (.py)": context["pathto"](f"_sources/{pagename}.py", 1)}
        context["body"] += app.companion_pages[chapter].foot(source | links)
    drop_thebe(context)
    name_toggles(context)
    _describe(app, pagename, context, doctree)


def _describe(app: Sphinx, pagename: str, context: dict[str, Any], doctree: Any) -> None:
    """Description and social tags, version and date, tables that a keyboard can scroll."""
    title = (
        app.env.titles[pagename].astext() if pagename in app.env.titles else app.config.html_title
    )
    context["metatags"] = context.get("metatags", "") + social_tags(
        title,
        _description(doctree) or f"Part of the book: {app.config.html_title}",
        app.config.html_title,
        app.config.html_baseurl,
        f"{pagename}.html",
    )
    pages: dict[str, Page] = app.companion_pages
    chapter = app.companion_chapters.get(pagename)
    shown = [page.finished for name, page in pages.items() if chapter in (None, name)]
    context["theme_extra_footer"] = f"<p>{footer_text(lib.__version__, shown)}</p>"
    if "body" in context:
        body = with_cards(named_regions(context["body"]), _definitions(app))
        context["body"] = with_arxiv(body) if pagename == "bibliography" else body


def _definitions(app: Sphinx) -> dict[str, str]:
    """What the glossary says of each word, by the end of its address."""
    if not hasattr(app, "companion_definitions"):
        found = app.companion_definitions = {}
        if "glossary" in app.env.found_docs:
            page = app.env.get_and_resolve_doctree("glossary", app.builder)
            for formula in list(page.findall(nodes.math)):
                formula.replace_self(nodes.Text(plain_math(formula.astext())))
            for item in page.findall(nodes.definition_list_item):
                text = shorten(item.children[-1].astext(), 300)
                for term in item.findall(nodes.term):
                    found |= {f"glossary.html#{name}": text for name in term["ids"]}
    return app.companion_definitions


def _description(doctree: Any) -> str:
    """Beginning of a page's first paragraph that can be read without its formulas."""
    for paragraph in doctree.findall(nodes.paragraph) if doctree is not None else ():
        text = shorten(paragraph.astext())
        if len(text) >= 40 and not next(iter(paragraph.findall(nodes.math)), None):
            return text
    return ""


def _enter_code(translator: Any, node: nodes.Node) -> None:
    translator.body.append("<div class='companion-code' hidden>")


def _leave_code(translator: Any, node: nodes.Node) -> None:
    translator.body.append("</div>")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register events, roles and directives."""
    say_once()
    require_output(app)
    app.add_config_value("companion_profile", os.environ.get("COMPANION_PROFILE", "quick"), "env")
    root = Path(app.srcdir).parent
    try:
        app.companion_repository = repository(root, os.environ)
    except ValueError as error:
        raise ExtensionError(str(error)) from None
    app.companion_commit = git_output(root, "rev-parse", "HEAD") if app.companion_repository else ""
    bibliography.register()
    app.add_role("value", _role(_quoted))
    app.add_role("claim", _role(_claim))
    app.add_directive("picture", _directive(_picture, 1))
    app.add_directive("result", _directive(_result, 1))
    app.add_directive("drawing", _directive(lambda _, name: drawings.drawing_html(name), 1))
    app.add_directive("ledger", _directive(_ledger))
    app.add_directive("tally", _directive(_tally, 1))
    app.add_directive("beside", _directive(_beside))
    app.add_directive("benchmarks", _directive(_benchmarks, optional=1))
    app.add_directive("clone", CloneDirective)
    app.add_css_file("companion.css")
    app.add_css_file("widgets.css")
    app.setup_extension("myst_nb")  # which folds a cell's code: here it waits at the foot
    app.add_node(HideCodeCellNode, override=True, html=(_enter_code, _leave_code))
    app.add_js_file("code.js", loading_method="defer")
    app.add_js_file("widgets.js", loading_method="defer")
    app.add_js_file("ledger.js", loading_method="defer")
    app.add_js_file("cards.js", loading_method="defer")
    app.connect("config-inited", _lock)
    app.connect("builder-inited", _begin)
    app.connect("builder-inited", _execute)
    app.connect("env-get-outdated", _outdated)
    app.connect("html-page-context", _complete_page, priority=900)
    app.connect("build-finished", _finish, priority=900)  # themes write files there
    return {"version": lib.__version__, "parallel_read_safe": True, "parallel_write_safe": True}
