import pytest

from lib.data import __main__ as cli
from lib.runs.files import user_cache


@pytest.mark.parametrize("arguments", [[], ["fetch"], ["frobnicate"], ["fetch", "nothing/*"]])
def test_bad_usage_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_damaged_or_not_there_is_said_in_a_line(mirror, monkeypatch, capsys):
    monkeypatch.setattr(cli, "registry", lambda: mirror.entries)
    mirror.add("a", b"a", present=False)
    assert cli.main(["fetch", "a"]) == 1
    mirror.add("a", b"a")
    mirror.path("a").write_bytes(b"damaged")
    assert (cli.main(["verify"]), cli.main(["fetch", "a"])) == (1, 1)
    out, error = capsys.readouterr()
    assert out.startswith(f"corrupted  a (mirror): {mirror.path('a')}")
    assert error.count("\n") == 2


def test_fetch_verify_and_list_find_copies(mirror, monkeypatch, capsys):
    def words(*arguments):
        assert cli.main(list(arguments)) == 0
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    monkeypatch.setattr(cli, "registry", lambda: mirror.entries)
    mirror.add("group/a", b"a")
    mirror.add("group/b", b"b", present=False)
    mirror.add("other/c", b"c", chapters=())
    mirror.add("other/d", b"d", known=False)
    cache = user_cache() / mirror.entries["group/b"].mirror
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"b")
    assert words("fetch", "group/*", "group/a") == [[str(mirror.path("group/a"))], [str(cache)]]
    assert words("verify") == [
        ["ok", "group/a", "(mirror)"],
        ["ok", "group/b", "(cache)"],
        ["ok", "other/c", "(mirror)"],
        ["unknown", "other/d"],
    ]
    assert words("list")[1:] == [
        ["group/a", "1", "mirror", "one"],
        ["group/b", "1", "cache", "one"],
        ["other/c", "1", "mirror", "-"],
        ["other/d", "unknown", "unknown", "one"],
    ]
