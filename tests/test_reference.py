"""The reference: every formula is in an example, names and sources are as they should be."""

import doctest
import inspect
import pydoc
import re
import sys
from pathlib import Path

import pytest

import lib
from lib.book.reference import (
    PACKAGES,
    documented_by,
    first_sentence,
    names_of,
    public_names,
    source_line,
)

ROOT = Path(__file__).parents[1]

#: Formulas without an example: its rows compose numerically.
WITHOUT = {"lib.privacy.budget_table"}

#: Arguments called ``random_state``: scikit-learn's name, in estimators of its kind.
RANDOM_STATE = {
    "lib.counterfactual.ForestClassifier",
    "lib.counterfactual.ForestRegressor",
    "lib.counterfactual.SuperLearnerClassifier",
    "lib.counterfactual.SuperLearnerRegressor",
}


@pytest.mark.parametrize(
    "page", ["selective", "suitability", "audit", "counterfactual", "privacy", "plot"]
)
def test_every_formula_is_in_an_example(page):
    """Functions and estimators; what functions return is shown by their examples."""
    public = public_names(page)
    modules = [m for n, m in sys.modules.items() if f"{n}.".startswith(f"lib.{page}.")]
    finder = doctest.DocTestFinder()
    code = "".join(e.source for m in modules for test in finder.find(m) for e in test.examples)
    lacking = {
        name
        for name, value in public.items()
        if inspect.isfunction(value) or (inspect.isclass(value) and "fit" in vars(value))
        if not re.search(rf"\b{name.rpartition('.')[2]}\(|@{name.rpartition('.')[2]}\b", code)
    }
    assert lacking == WITHOUT & set(public)


@pytest.mark.parametrize("page", PACKAGES)
def test_every_name_has_one_page_and_a_line_in_a_table(page):
    """The package's page lists what the pages of its subjects document, each name once."""
    folder = ROOT / "book" / "reference"
    listed = re.findall(r"^\.\. name-table:: (\S+)$", (folder / f"{page}.md").read_text(), re.M)
    subjects = sorted(path.stem for path in folder.glob(f"{page}_*.md"))
    assert sorted(listed) == subjects
    toc = (ROOT / "book" / "_toc.yml").read_text()
    names = []
    for subject in subjects or [page]:
        assert (folder / f"{subject}.md").read_text().count(".. names::") == 1
        documented = documented_by(folder / f"{subject}.md")
        assert documented[0] == page
        names += names_of(*documented)
        assert f"- file: reference/{subject}\n" in toc
    assert sorted(names) == sorted(public_names(page))


def test_a_line_of_a_table_is_a_whole_sentence():
    lines = {n: first_sentence(n, v) for page in PACKAGES for n, v in public_names(page).items()}
    assert [n for n, line in lines.items() if not line.endswith(".")] == []
    assert max(map(len, lines.values())) < 200


@pytest.mark.parametrize("page", PACKAGES)
def test_every_source_line_is_where_the_name_is_written(page):
    for name, value in public_names(page).items():
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        text = source_line(value, "", "")
        file, line = re.fullmatch(r"Source: ``(lib/[\w/]+\.py)``, line (\d+)\.", text).groups()
        written = (ROOT / file).read_text(encoding="utf-8").splitlines()[int(line) - 1 :]
        head = next(row for row in written if not row.startswith(("@", " ", ")")))
        assert re.match(rf"(class|def) {value.__name__}\b", head), name


def test_a_source_line_links_where_the_repository_is_known():
    text = source_line(public_names, "a/b", "c" * 40)
    assert f"<https://github.com/a/b/blob/{'c' * 40}/lib/book/reference.py#L" in text


@pytest.mark.parametrize("page", PACKAGES)
def test_randomness_is_called_rng_or_seed(page):
    odd = set()
    for name, value in public_names(page).items():
        if not (inspect.isfunction(value) or inspect.isclass(value)):
            continue
        try:
            parameters = inspect.signature(value).parameters
        except ValueError:
            continue
        names = set(parameters)
        if names & {"random_state", "generator", "random_seed", "rand"}:
            odd.add(name)
        for parameter in parameters.values():
            if "Generator" in str(parameter.annotation):
                assert parameter.name in {"rng", "seed"}, name
    assert odd == {n for n in RANDOM_STATE if n.startswith(f"lib.{page}.")}


def test_nothing_draws_from_a_global_generator():
    """NumPy's global state is untouched by importing and by the examples' kind of call."""
    used = re.compile(r"np\.random\.(seed|rand|randn|randint|normal|choice|shuffle|permutation)\(")
    for path in Path(lib.__file__).parent.rglob("*.py"):
        assert not used.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    ("page", "least"), [("which_function", 40), ("maintainers", 7), ("security", 1)]
)
def test_pages_lead_to_public_functions(page, least):
    text = (ROOT / "book" / f"{page}.md").read_text(encoding="utf-8")
    public = {name for page in PACKAGES for name in public_names(page)}
    named = re.findall(r"\{py:obj\}`([\w.]+)`", text)
    assert len(named) >= least
    assert not set(named) - public


@pytest.mark.parametrize("page", PACKAGES)
def test_every_name_in_a_docstring_exists(page):
    """What Sphinx would look up: public objects, their members; experiments are no part of it."""
    public = {each: public_names(each) for each in PACKAGES}[page]  # all are imported
    names = [n for n in sys.modules if n.startswith("lib.") and not n.startswith("lib.studies.")]
    modules = [sys.modules[name] for name in names]
    unknown = []
    for name, value in public.items():
        members = vars(value).values() if inspect.isclass(value) else []
        texts = [inspect.getdoc(value) or "", *(inspect.getdoc(m) or "" for m in members)]
        for target in re.findall(r":\w+:`~?([\w.]+)`", "\n".join(texts)):
            head, _, rest = target.partition(".")
            places = [value, *modules] if head != "lib" else []
            known = any(hasattr(place, head) for place in places if not rest)
            known |= any(hasattr(getattr(place, head, None), rest) for place in places if rest)
            if not known and pydoc.locate(target) is None:
                unknown.append(f"{name}: {target}")
    assert unknown == []
