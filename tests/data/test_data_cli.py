import pytest

from lib.data import __main__ as cli
from lib.data import store
from lib.data.registry import registry

NAME = "suitability/published_folds_rxrx1"


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
def test_bad_usage_exits_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    out, error = capsys.readouterr()
    assert message in one_line(error)
    assert out == ""


def test_other_errors_are_one_line_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "nowhere"))
    assert cli.main(["list"]) == 1
    assert "is not a directory" in one_line(capsys.readouterr().err)
    monkeypatch.delenv("COMPANION_DATA")
    assert cli.main(["fetch", NAME]) == 1
    assert "COMPANION_DATA" in one_line(capsys.readouterr().err)
    monkeypatch.setenv("COMPANION_CHAPTER", "calibration")
    assert cli.main(["fetch", NAME]) == 1
    assert "'calibration'" in one_line(capsys.readouterr().err)
    path = tmp_path / registry()[NAME].mirror
    path.parent.mkdir(parents=True)
    path.write_text("damaged")
    monkeypatch.delenv("COMPANION_CHAPTER")
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path))
    assert cli.main(["verify"]) == 1
    assert f"corrupted  {NAME} (mirror): {path}" in capsys.readouterr().out
    assert cli.main(["fetch", NAME]) == 1
    assert registry()[NAME].sha256 in one_line(capsys.readouterr().err)


def test_fetch_verify_and_list_find_copies(mirror, monkeypatch, capsys):
    monkeypatch.setattr(cli, "registry", lambda: mirror.entries)
    mirror.add("group/a", b"a")
    mirror.add("group/b", b"b", present=False)
    mirror.add("other/c", b"c", chapters=())
    mirror.add("other/d", b"d", known=False)
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
        ["unknown", "other/d"],
    ]

    assert cli.main(["list"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["group/a", "1", "mirror", "one"],
        ["group/b", "1", "cache", "one"],
        ["other/c", "1", "mirror", "-"],
        ["other/d", "unknown", "unknown", "one"],
    ]
