"""`pip install .`: a wheel made of a clean copy works where the checkout is not importable.

And importing all of it opens no connection.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]

USE = """
import importlib, pkgutil, socket, sys
from pathlib import Path

class Blocked(Exception):
    pass

def refuse(*_, **__):
    raise Blocked("a connection at import")

socket.socket.connect = socket.socket.connect_ex = refuse
socket.create_connection = socket.getaddrinfo = refuse
try:
    socket.create_connection(("127.0.0.1", 9))
except Blocked:
    print("blocked")
site, checkout = sys.argv[1:]
sys.path = [site] + [p for p in sys.path if Path(p or ".").resolve() != Path(checkout)]
sys.meta_path = [f for f in sys.meta_path if "editable" not in repr(f).lower()]
import lib
assert Path(lib.__file__).is_relative_to(site), lib.__file__
failed = {}
for module in pkgutil.walk_packages(lib.__path__, "lib."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except Exception as error:
        failed[module.name] = repr(error)
assert not failed, failed
assert not any(str(checkout) == str(Path(p).resolve()) for p in sys.path if p)
from lib import audit, counterfactual, privacy, selective, suitability, training
packages = audit, counterfactual, privacy, selective, suitability, training
assert all(hasattr(package, name) for package in packages for name in package.__all__)
import numpy as np
from lib import data
from lib.selective import normalized_score
from lib.suitability import SuitabilityFilter, signals
assert len(data.registry()) > 10
rng = np.random.default_rng(0)
labels = rng.integers(3, size=900)
logits = 2.0 * np.eye(3)[labels] + rng.normal(size=(900, 3))
table, correct = signals(logits), logits.argmax(axis=1) == labels
assert normalized_score(correct, table["conf_max"]) < 0.1
fitted = SuitabilityFilter(margin=0.05).fit(table[:300], correct[:300])
print(fitted.decide(table[300:600], table[600:]).suitable)
import os
import papermill
os.environ["PYTHONPATH"] = site  # the kernel's
given = {"parameters": {"n": 3}, "progress_bar": False}
papermill.execute_notebook("../book/one.py", "one.ipynb", **given)
"""

CHAPTER = """# %% [markdown]
# # One
# It is {value}`one.n:d`.

# %% tags=["parameters"]
n: int = 2  # [1, 9] a number

# %%
import lib
from lib.book.session import open_chapter

chapter = open_chapter("one", globals())
chapter.values(n=n)
print(lib.__file__)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder into which the wheel was installed, alone."""
    base = tmp_path_factory.mktemp("wheel")
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, names):
        if (
            name.startswith(("lib/", "pyproject.toml", "README.md", "LICENSE"))
            and (ROOT / name).exists()
        ):
            target = base / "clone" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    # pip makes a wheel of the copy, and installs that.
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    site, options = base / "site", ("--no-deps", "--no-index", "--no-build-isolation")
    subprocess.run(
        [*pip, *options, "--target", site, base / "clone"],
        check=True,
        capture_output=True,
        text=True,
    )
    return site


@pytest.mark.slow
def test_it_imports_whole_without_a_connection_and_works_elsewhere(installed, tmp_path):
    """So does papermill, of a book with no lib beside it: process and kernel have the installed."""
    book, elsewhere = tmp_path / "book", tmp_path / "elsewhere"
    book.mkdir()
    elsewhere.mkdir()
    (book / "one.py").write_text(CHAPTER)
    (book / "claims.yml").touch()
    (book / "_toc.yml").write_text("format: jb-book\nroot: index\nchapters:\n  - file: one\n")
    done = subprocess.run(
        [sys.executable, "-I", "-c", USE, str(installed), str(ROOT)],
        cwd=elsewhere,
        env={k: v for k, v in os.environ.items() if not k.startswith("COMPANION_")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["blocked", "True"]
    made = (elsewhere / "one.ipynb").read_text(encoding="utf-8")
    assert nbformat.reads(made, as_version=4).cells[0].source == "# One\nIt is 3."
    assert str(installed / "lib" / "__init__.py") in made


ABSENT = """
import sys

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent)
"""


@pytest.mark.slow
def test_its_command_makes_a_report_in_another_folder_without_what_trains_or_builds(
    installed, tmp_path
):
    """Without packages of the extra `training`, and those that only pages are built with."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {Requirement(one).name for one in extras["optional-dependencies"]["training"]}
    assert names == {"torch", "opacus"}
    names |= {"dp_accounting", "jupytext", "jupyter_book", "papermill", "shap", "nbformat"}
    absent, here = tmp_path / "absent", tmp_path / "here"
    absent.mkdir()
    here.mkdir()
    (absent / "sitecustomize.py").write_text(ABSENT.format(absent={*names, "IPython"}))
    kept = {name: text for name, text in os.environ.items() if not name.startswith("COMPANION_")}
    given = {"env": kept | {"PYTHONPATH": f"{absent}{os.pathsep}{installed}"}, "cwd": here}
    done = subprocess.run(
        [
            *(installed / "bin" / "companion-report", "--example", "--out", "report.html"),
            *("--learner", "linear"),  # a forest would be compiled first
        ],
        capture_output=True,
        text=True,
        **given,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in here.iterdir()} == {"example.npz", "report.html"}
    page = (here / "report.html").read_text(encoding="utf-8")
    assert "<span>companion-report</span> <span>--example</span>" in page
    assert "<script" not in page
    lacks = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, **given)
    assert b"No module named 'torch'" in lacks.stderr


@pytest.mark.slow
def test_it_holds_the_package_data(installed):
    for name in ("data/registry.yml", "book/static/companion.css"):
        assert (installed / "lib" / name).is_file(), name
    checkout = {
        path.relative_to(ROOT)
        for path in (ROOT / "lib").rglob("*.*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {path for path in checkout if not (installed / path).is_file()} == set()
    parts = {path.name.partition("-")[0] for path in installed.iterdir()}
    # No tests, no book; `bin` has the command.
    assert parts == {"lib", "abstention_privacy_companion", "bin"}
    assert [path.name for path in (installed / "bin").iterdir()] == ["companion-report"]
