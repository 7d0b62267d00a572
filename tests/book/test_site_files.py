"""Files around the site: what it is made of, how it is cited, and where else it runs."""

import base64
import io
import json
import re
import tomllib
from pathlib import Path
from urllib.parse import unquote_to_bytes

import jupytext
import nbformat
import numpy as np
import pytest
import yaml
from matplotlib import pyplot as plt
from PIL import Image
from pybtex.database import Entry, Person, parse_file

import lib
from lib.book import site
from lib.book.bibliography import AuthorsAndYear
from lib.book.card import CARD_FILE, draw_card
from lib.book.chapters import chapter_files
from lib.book.render import PAPERS

ROOT = Path(__file__).parents[2]
PAPER_KEYS = {
    "P1": "rabanser2023training",
    "P2": "pouget2025suitability",
    "P3": "zanella2023bayesian",
    "P4": "choe2023counterfactually",
    "P5": "malek2021antipodes",
}


def load(name: str):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


# ------------------------------------------------------------- citation


def test_citation_file_has_what_its_schema_requires():
    """And it is of this version."""
    citation = load("CITATION.cff")
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")
    for work in [citation, *citation["references"]]:
        for author in work["authors"]:
            assert set(author) in ({"name"}, {"family-names", "given-names"})
    for work in citation["references"]:
        assert work["type"] == "conference-paper"
        assert work["conference"]["name"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"] == lib.__version__
    assert citation["license"] == project["license"]
    assert load("_config.yml")["title"].lower() in citation["title"].lower()


@pytest.mark.parametrize("paper", PAPERS)
def test_citation_file_has_the_papers_as_the_bibliography_has_them(paper):
    entry = parse_file(str(ROOT / "book" / "references.bib")).entries[PAPER_KEYS[paper]]
    number = re.fullmatch(r"arXiv:(\d{4}\.\d{5})", entry.fields["note"])[1]
    found = [w for w in load("CITATION.cff")["references"] if w["url"].endswith(number)]
    (work,) = found
    assert work["url"] == f"https://arxiv.org/abs/{number}"
    assert work["identifiers"] == [{"type": "other", "value": f"arXiv:{number}"}]
    assert work["title"] == entry.fields["title"].replace("{", "").replace("}", "")
    assert work["year"] == int(entry.fields["year"])
    assert work["collection-title"] == entry.fields["booktitle"]

    for author, person in zip(work["authors"], entry.persons["author"], strict=True):
        last = person.rich_prelast_names + person.rich_last_names
        first = person.rich_first_names + person.rich_middle_names
        assert author["family-names"] == " ".join(map(str, last))
        assert author["given-names"] == " ".join(map(str, first))


def test_the_bibliography_names_authors_and_years_and_leads_to_preprints():
    names = [["Ruth Doe"], ["Doe, R."], ["Ann Roe", 'Jo {\\"O}'], ["A", "B", "C"], ["Z", "others"]]
    entries = [Entry("misc", {"year": "2021"}, {"author": [*map(Person, of)]}) for of in names]
    labels = ["Doe, 2021a", "Doe, 2021b", "Roe and Ö, 2021", "A et al., 2021", "Z et al., 2021"]
    assert [*AuthorsAndYear().format_labels(entries)] == labels
    link = '<a href="https://arxiv.org/abs/2101.12345">arXiv:2101.12345</a>'
    assert site.with_arxiv("see arXiv:2101.12345.") == f"see {link}."


# ------------------------------------------------------------- other machines


def test_binder_installs_the_package_and_opens_chapters_as_notebooks():
    path = ROOT / ".binder" / "postBuild"
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o111, "Binder executes it"
    for part in ("set -euo pipefail", "--no-build-isolation -e .", "set-default-viewer"):
        assert part in text


def dockerfile() -> str:
    return (ROOT / ".devcontainer" / "Dockerfile").read_text(encoding="utf-8")


def test_dockerfile_is_pinned_small_and_not_root():
    text = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", dockerfile(), flags=re.M))
    steps = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    named = {name: rest.strip() for name, rest in steps}  # the last of each
    assert re.search(r":\d+\.\d+\.\d+[\w.-]*$", named["FROM"])
    assert named["USER"] not in ("root", "0")
    assert named["WORKDIR"].startswith("/")
    assert "ADD" not in named
    (install,) = [rest for name, rest in steps if name == "RUN" and "apt-get install" in rest]
    for part in ("apt-get update", "--no-install-recommends", "rm -rf /var/lib/apt/lists"):
        assert part in install
    assert not re.search(r"(curl|wget).*\|\s*(ba)?sh|\bsudo\b", text)


def test_devcontainer_fits_its_dockerfile():
    folder = ROOT / ".devcontainer"
    settings = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))
    assert (folder / settings["build"]["dockerfile"]).is_file()
    assert f"USER {settings['remoteUser']}\n" in dockerfile()
    assert "make .venv/.ready" in settings["postCreateCommand"]
    assert re.search(r"^READY := \$\(VENV\)/\.ready$", (ROOT / "Makefile").read_text(), re.M)
    (port,) = settings["forwardPorts"]
    assert f"EXPOSE {port}\n" in dockerfile()


@pytest.mark.parametrize("chapter", chapter_files(ROOT / "book"))
def test_running_and_saving_a_chapter_in_jupyterlab_changes_no_byte(chapter):
    """What its contents manager does on saving, with the settings of the repository."""
    from jupytext.config import load_jupytext_configuration_file

    config = load_jupytext_configuration_file(str(ROOT / "jupytext.toml"))
    text = chapter_files(ROOT / "book")[chapter].read_text(encoding="utf-8")
    notebook = jupytext.reads(text, "py:percent", config=config)
    spec = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    notebook.metadata |= {"kernelspec": spec, "language_info": {"name": "python", "version": "3"}}
    for number, cell in enumerate(notebook.cells):
        cell.metadata |= {"trusted": True, "editable": True, "execution": {"iopub.status.busy": ""}}
        if cell.cell_type == "code":
            cell.execution_count = number
            cell.outputs = [nbformat.v4.new_output("stream", text="1")]
    assert jupytext.writes(notebook, "py:percent", config=config) == text


# ------------------------------------------------------------- parts of the site


def test_card_is_drawn_by_the_code(tmp_path):
    with plt.rc_context({"lines.marker": "s", "font.size": 20}):  # no style of ours enters
        draw_card(tmp_path / "card.png")
    assert CARD_FILE.stat().st_size < 200_000
    with Image.open(CARD_FILE) as kept, Image.open(tmp_path / "card.png") as drawn:
        assert kept.size == drawn.size == site.CARD
        difference = np.asarray(kept, float) - np.asarray(drawn, float)
    assert np.abs(difference).mean() < 1  # of 255: fonts are matplotlib's own


@pytest.mark.parametrize(
    ("configured", "repository", "address"),
    [
        ("", "", ""),
        ("", "Some/Where", "https://some.github.io/Where/"),
        ("", "some/some.github.io", "https://some.github.io/"),
        ("https://book.example.org", "some/where", "https://book.example.org/"),
        ("http://example.org/a/", "", "http://example.org/a/"),
    ],
)
def test_address_of_the_site(configured, repository, address):
    assert site.site_address(configured, repository) == address
    for relative in ("book.example.org", "/where/", "ftp://example.org"):
        with pytest.raises(ValueError, match=re.escape(repr(relative))):
            site.site_address(relative, repository)


def test_descriptions_end_with_a_word():
    assert site.shorten("two\n words") == "two words"
    text = site.shorten("word, " * 40, 50)
    assert len(text) <= 50
    assert text.endswith("word…")


def test_figures_become_lighter_and_stay_what_they_are():
    figure, ax = plt.subplots()
    x = np.linspace(0, 10, 500)
    ax.fill_between(x, np.sin(x), np.cos(3 * x))
    ax.scatter(x[::50], np.sin(x[::50]))
    ax.set_title("100 % of 'it' & <more> é")
    stream = io.BytesIO()
    with plt.rc_context({"svg.hashsalt": "x"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    plt.close(figure)
    heavy = "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue()).decode()
    page = f"<p>1.23456</p><img src='{heavy}' alt='2.34567'>"
    light = site.minify_svg(page)
    found = re.fullmatch("<p>1.23456</p><img src='data:image/svg.xml,(.*)' alt='2.34567'>", light)
    assert len(light) < 0.35 * len(page)
    text = unquote_to_bytes(found[1])
    assert site.light_svg(text.decode()) == text.decode()  # a recorded figure goes through it twice
    old, new = stream.getvalue().decode(), text.decode()
    for place in (r' x="(.*?)"', r' y="(.*?)"'):
        points = (np.array(re.findall(place, svg), float) for svg in (new, old))
        np.testing.assert_allclose(*points, atol=0.0051)
    (wide,) = re.findall("srcset='(.*?)'", site.minify_svg(page.replace("src=", "srcset=")))
    assert " " not in wide  # which would end the address
    wide = unquote_to_bytes(wide.removeprefix("data:image/svg+xml,"))
    assert wide.replace(b",", b" ") == text.replace(b",", b" ")
    named, used = (re.findall(p, new) for p in (r' id="(.+?)"', r'(?:href="|url\()#(.+?)[")]'))
    assert len({*named}) == len(named)
    assert {*used} <= {*named}
    assert len(used) == len(re.findall(r'(?:href="|url\()#', old))
    other = "<img src='data:image/png;base64,AAAA'> 1.23456 data:image/svg+xml,x"
    assert site.minify_svg(other) == other


@pytest.mark.parametrize(
    ("path", "light"),
    [
        ("M 0 0 L 1 0 L 2 0 L 2 1 z", "m0 0 2 0 0 1z"),
        ("M 0.004 0 L 1 0.02 L 2 0", "m0 0 2 0"),
        ("M 0 0 L 1 0.03 L 2 0", "m0 0 1 0.03 1-0.03"),
        ("M 1 1 Q 2 1 2 2 Q 2 3 1 3 L 0 3 z M 5 5 L 6 6", "m1 1q1 0 1 1 0 1-1 1l-1 0zm4 4 1 1"),
        ("M 0 0 C 1 0 1 1 0 1", "m0 0c1 0 1 1 0 1"),
        ("M 0 0 L 5 0 L 0 0", "m0 0 5 0-5 0"),  # there and back is two lines
        ("M 0 0 A 1 1 0 0 1 2 0", "M 0 0 A 1 1 0 0 1 2 0"),  # left alone
        ("m0 0 2 0 0 1z", "m0 0 2 0 0 1z"),
    ],
)
def test_a_path_says_nothing_twice(path, light):
    assert site.light_path(path) == light


@pytest.mark.parametrize("tag", ["lesson", "solution", "try-it"])
def test_code_is_closed_unless_it_is_a_lesson_or_of_an_exercise(tag):
    assert site.folding(["x", tag]) == ["x", tag]
    assert site.folding(["parameters"]) == ["parameters", "hide-input"]


def test_boxes_that_scroll_have_names_of_their_own():
    box = '<div class="pst-scrollable-table-container">'
    own = "<div class='companion-scroll' role='region' tabindex='0' aria-label='It\"s'>"
    found = re.findall(r"aria-label=(['\"])(.*?)\1", site.named_regions(2 * box + 3 * own))
    names = ["Table in the text", "Table in the text (2)", 'It"s', 'It"s (2)', 'It"s (3)']
    assert [name for _, name in found] == names
    code = '<code><span class="pre">{}</span></code>'.format  # names may break, options not
    broken = "lib.<wbr>audit.<wbr>best_<wbr>lower_<wbr>bound"
    assert broken in site.named_regions(code("lib.audit.best_lower_bound"))
    assert "<wbr>" not in site.named_regions(code("--out=a.html"))


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\mathrm{Beta}(\frac12, \frac12)", "Beta(1/2, 1/2)"),
        (r"(\epsilon, \delta)", "(ε, δ)"),
        (r"\varepsilon", "ε"),
        (r"\Delta", "Δ"),
        (r"\frac{\alpha}{n}\,c", "α/nc"),
    ],
)
def test_formulas_on_cards_are_plain_text(tex, text):
    assert site.plain_math(tex) == text


def test_links_to_words_and_sources_are_described():
    def link(address, rest=""):
        return f'<a class="reference internal" href="{address}"{rest}>word</a>'

    cards = {"glossary.html#term-x": 'A <b> & "c".'}
    found = site.with_cards(link("../glossary.html#term-x"), cards)
    assert 'class="reference internal companion-card"' in found
    assert 'aria-description="A &lt;b&gt; &amp; &quot;c&quot;."' in found
    found = site.with_cards(link("bibliography.html#id3", ' title="Someone, 2020"'), cards)
    assert 'aria-description="Someone, 2020"' in found
    assert "title=" not in found
    for other in (link("glossary.html#term-y"), link("audit.html#x", ' title="Another page"')):
        assert site.with_cards(other, cards) == other


@pytest.mark.parametrize(
    ("repository", "commit", "named"),
    [
        ("some/where; rm -rf x", "0123456789", "repository"),
        ("somewhere", "0123456789", "repository"),
        ("some/where", "HEAD; x", "commit"),
        ("some/where", "", "commit"),
    ],
)
def test_colab_cell_takes_names_only(repository, commit, named):
    with pytest.raises(ValueError, match=named):
        site.colab_cell(repository, commit)
