import os
import subprocess
import sys
from pathlib import Path

import pytest

from lib.data import __main__ as cli
from lib.data import store
from lib.data.registry import registry

ROOT = Path(__file__).parents[2]
NAME = "suitability/published_folds_rxrx1"


def run(*arguments, **environment):
    """Run the command as a user would; the environment is conftest's plus what is given."""
    return subprocess.run(
        [sys.executable, "-m", "lib.data", *arguments],
        cwd=ROOT,
        env=os.environ | {key: str(value) for key, value in environment.items()},
        capture_output=True,
        text=True,
        check=False,
    )


def one_line(text):
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required"),
        (["fetch"], "NAME"),
        (["frobnicate"], "'frobnicate'"),
        (["fetch", "suitability/fmow_ERM0"], "did you mean 'suitability/fmow_ERM_0'"),
        (["fetch", "nothing/*"], "'nothing/*'"),
    ],
)
def test_bad_usage_exits_with_2(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert message in one_line(done.stderr)
    assert done.stdout == ""


def test_unavailable_file_exits_with_1():
    done = run("fetch", NAME)
    assert done.returncode == 1
    assert "COMPANION_DATA" in one_line(done.stderr)


def test_bad_mirror_exits_with_1(tmp_path):
    done = run("list", COMPANION_DATA=tmp_path / "nowhere")
    assert done.returncode == 1
    assert "is not a directory" in one_line(done.stderr)


def test_undeclared_file_exits_with_1():
    done = run("fetch", NAME, COMPANION_CHAPTER="calibration")
    assert done.returncode == 1
    assert "'calibration'" in one_line(done.stderr)


def test_damage_is_found(tmp_path):
    path = tmp_path / registry()[NAME].mirror
    path.parent.mkdir(parents=True)
    path.write_text("damaged")
    done = run("verify", COMPANION_DATA=tmp_path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert len(lines) == len(registry())
    unknown = [name for name, entry in registry().items() if entry.sha256 is None]
    assert [line.split()[1] for line in lines if line.startswith("unknown ")] == unknown
    assert [line for line in lines if not line.startswith(("absent ", "unknown "))] == [
        line for line in lines if line.startswith(f"corrupted  {NAME} (mirror): {path}")
    ]
    done = run("fetch", NAME, COMPANION_DATA=tmp_path)
    assert done.returncode == 1
    assert registry()[NAME].sha256 in one_line(done.stderr)


def test_list_shows_every_file():
    done = run("list")
    assert done.returncode == 0
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["name", "bytes", "where", "chapters"]
    assert [row.split()[0] for row in rows] == list(registry())
    assert [row.split()[1:3] for row in rows] == [
        ["unknown", "unknown"] if entry.sha256 is None else [f"{entry.size:,}", "absent"]
        for entry in registry().values()
    ]


def test_fetch_verify_and_list_find_copies(mirror, monkeypatch, capsys):
    monkeypatch.setattr(cli, "registry", lambda: mirror.entries)
    mirror.add("group/a", b"a")
    mirror.add("group/b", b"b", present=False)
    mirror.add("other/c", b"c", chapters=())
    cache = store._cache() / mirror.entries["group/b"].mirror
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"b")

    assert cli.main(["fetch", "group/*", "group/a"]) == 0
    assert capsys.readouterr().out.split() == [str(mirror.path("group/a")), str(cache)]

    assert cli.main(["verify"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["ok", "group/a", "(mirror)"],
        ["ok", "group/b", "(cache)"],
        ["ok", "other/c", "(mirror)"],
    ]

    assert cli.main(["list"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["group/a", "1", "mirror", "one"],
        ["group/b", "1", "cache", "one"],
        ["other/c", "1", "mirror", "-"],
    ]
