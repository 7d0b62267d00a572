"""What counts of what is installed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lib.runs import package_versions, provenance


@pytest.fixture
def install(tmp_path, monkeypatch) -> Callable[..., dict[str, str]]:
    """Installs packages of version 1 by their metadata alone; returns what counts then."""
    monkeypatch.syspath_prepend(tmp_path)
    cached = (package_versions, provenance._installed, provenance.required_versions)

    def add(*names: str) -> dict[str, str]:
        for name in names:
            folder = Path(tmp_path, f"{name}-1.dist-info")
            folder.mkdir()
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        for each in cached:
            each.cache_clear()
        return provenance.required_versions()

    yield add
    for each in cached:
        each.cache_clear()


def test_only_what_is_required_counts_and_what_computes_unasked(install):
    before = install()
    assert {"numpy", "torch", "jupyter-book", "sphinx", "dask", "ipykernel"} <= before.keys()
    assert not {"pytest", "ruff", "playwright"} & before.keys()
    assert install("unrelated") == before
    assert package_versions()["unrelated"] == "1"
    assert install("numexpr") == before | {"numexpr": "1"}


def test_all_counts_where_nobody_says_what_is_required(install, monkeypatch):
    monkeypatch.setattr(provenance, "_PROJECT", "nobody")
    assert install("unrelated") == package_versions()
