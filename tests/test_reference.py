"""The reference: every name has a page, every formula an example, and links lead somewhere."""

import doctest
import inspect
import pydoc
import re
import sys
from pathlib import Path

import pytest
from public_names import PACKAGES, public_names

import lib
from lib.book.docstrings import source_address

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
def test_every_name_is_once_in_a_table_and_once_in_full(page):
    text = (ROOT / "book" / "reference" / f"{page}.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\.\. autosummary::\n   :nosignatures:\n\n((?:   \w+\n)+)", text, re.M)
    public = public_names(page)
    listed = [f"{PACKAGES[page]}.{name}" for table in tables for name in table.split()]
    assert sorted(listed) == sorted(public)
    assert text.count(f".. automodule:: {PACKAGES[page]}\n   :members:\n") == 1
    given = re.findall(r"^\.\. autodata:: (\w+)$", text, re.M)
    # Of constants automodule has those that the module makes itself.
    constants = [n for n, v in public.items() if not callable(v) and page != "plot"]
    assert [f"{PACKAGES[page]}.{name}" for name in given] == constants
    assert f"- file: reference/{page}\n" in (ROOT / "book" / "_toc.yml").read_text()


def test_a_source_links_to_the_line_that_it_is_written_in():
    address = source_address("https://github.com/a/b/blob/c", "lib.audit", "epsilon_interval")
    file, line = address.removeprefix("https://github.com/a/b/blob/c/").split("#L")
    written = (ROOT / file).read_text(encoding="utf-8").splitlines()[int(line) - 1 :]
    assert next(row for row in written if row[0] != "@").startswith("def epsilon_interval(")
    assert source_address("", "lib.audit", "epsilon_interval") is None
    assert source_address("x", "lib.audit", "METHODS") is None


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
