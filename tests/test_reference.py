"""The reference: every public name has an example, and all examples give what they show."""

import doctest
import inspect
import re
from pathlib import Path

import matplotlib as mpl
import pytest

from lib.book.reference import PACKAGES, has_example, public_names, read_examples, source_line

ROOT = Path(__file__).parents[1]

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

#: Public names that have no example yet.
WITHOUT = frozenset()

#: Arguments called ``random_state``: scikit-learn's name, in estimators of its kind.
RANDOM_STATE = {
    "lib.counterfactual.ForestClassifier",
    "lib.counterfactual.ForestRegressor",
    "lib.counterfactual.SuperLearnerClassifier",
    "lib.counterfactual.SuperLearnerRegressor",
}


def short(page, name):
    return name.removeprefix(f"lib.{page}.")


@pytest.mark.slow
@pytest.mark.parametrize("page", PACKAGES)
def test_examples_give_what_they_show(page, monkeypatch, tmp_path):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))  # what examples train is kept nowhere
    before = mpl.get_backend()
    mpl.use("agg")
    start, examples = read_examples(page)
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    parser, shown = doctest.DocTestParser(), []
    first = parser.get_doctest(start.code, {}, f"{page}: setup", None, None)
    runner.run(first, out=shown.append, clear_globs=False)
    for example in examples:
        test = parser.get_doctest(example.code, first.globs, str(example.names), None, None)
        assert test.examples, example.names
        runner.run(test, out=shown.append)
    mpl.use(before)
    assert runner.summarize(verbose=False).failed == 0, "".join(shown)


@pytest.mark.parametrize("page", PACKAGES)
def test_every_public_name_has_an_example_and_every_example_a_name(page):
    public = {short(page, name): value for name, value in public_names(page).items()}
    listed = [name for example in read_examples(page)[1] for name in example.names]
    assert len(listed) == len(set(listed))
    assert not set(listed) - set(public)
    lacking = {n for n, v in public.items() if n not in listed and not has_example(v)}
    assert lacking == {short(page, n) for n in WITHOUT if n.startswith(f"lib.{page}.")}


@pytest.mark.parametrize("page", PACKAGES)
def test_every_source_line_is_where_the_name_is_written(page):
    for name, value in public_names(page).items():
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        (text, _) = source_line(value, "", "")
        file, line = re.fullmatch(r"Source: ``(lib/[\w/]+\.py)``, line (\d+)\.", text).groups()
        written = (ROOT / file).read_text(encoding="utf-8").splitlines()[int(line) - 1 :]
        head = next(row for row in written if not row.startswith(("@", " ", ")")))
        assert re.match(rf"(class|def) {value.__name__}\b", head), name


def test_a_source_line_links_where_the_repository_is_known():
    (text, _) = source_line(read_examples, "a/b", "c" * 40)
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
    import re
    from pathlib import Path

    import lib

    used = re.compile(r"np\.random\.(seed|rand|randn|randint|normal|choice|shuffle|permutation)\(")
    for path in Path(lib.__file__).parent.rglob("*.py"):
        assert not used.search(path.read_text(encoding="utf-8")), path


def test_questions_lead_to_public_functions():
    import re
    from pathlib import Path

    text = (Path(__file__).parents[1] / "book" / "which_function.md").read_text(encoding="utf-8")
    public = {name for page in PACKAGES for name in public_names(page)}
    named = re.findall(r"\{py:obj\}`([\w.]+)`", text)
    assert len(named) >= 40
    assert not set(named) - public
