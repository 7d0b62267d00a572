"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import pkgutil

import matplotlib as mpl
import pytest

import lib

PACKAGES = [module.name for module in pkgutil.iter_modules(lib.__path__, "lib.")]


@pytest.mark.parametrize("package", PACKAGES)
def test_examples(package, monkeypatch, tmp_path):
    """Those of a package begin with what its own docstring runs."""
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))  # what examples train is kept nowhere
    before = mpl.get_backend()
    mpl.use("agg")
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=options, verbose=False)
    home, shown = importlib.import_module(package), []
    start = doctest.DocTestParser().get_doctest(home.__doc__ or "", {}, package, None, None)
    runner.run(start, out=shown.append, clear_globs=False)
    names = [
        package,
        *(m.name for m in pkgutil.walk_packages(getattr(home, "__path__", []), f"{package}.")),
    ]
    for name in names:
        if not name.endswith("__main__"):
            module = importlib.import_module(name)
            for test in doctest.DocTestFinder().find(module, extraglobs=start.globs):
                if test.name != package:
                    runner.run(test, out=shown.append)
    mpl.use(before)
    assert runner.summarize(verbose=False).failed == 0, "".join(shown)
