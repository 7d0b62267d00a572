"""`make portable`: what a setting switches off, and what is said of settings and their tests."""

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOUND = ["X86_V3", "X86_V4", "AVX512_ICL"]
RESULTS = {"a sum": 4.0, "a zero": 0.0}


@pytest.fixture
def script(program, monkeypatch, tmp_path):
    module = program("portable")
    monkeypatch.setattr(module, "FOLDER", module.ROOT / ".cache" / "portable" / tmp_path.name)
    return module


@pytest.fixture
def played(script, monkeypatch):
    """Tests that are not run: one passes everywhere, one fails where NumPy's features are off."""
    asked = []

    def child(variables, *command):
        asked.append((variables, command))
        plain = variables.get("NPY_DISABLE_CPU_FEATURES") == " ".join(FOUND)
        out, code = "", 0
        if "show_config" in command[-1]:
            out = json.dumps({"found": FOUND})
        elif command[0] == "-c":
            results = RESULTS | {"a sum": 5.0 if plain else 4.0}
            out = json.dumps({"blas": [], "torch": "", "results": results})
        else:
            (path,) = (c.partition("=")[2] for c in command if c.startswith("--junitxml"))
            failure = "<failure/>" if plain else ""
            case = '<testcase classname="tests.test_a" name="test_{}" time="1">{}</testcase>'
            text = case.format("b", "") + case.format("c", failure)
            Path(path).write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>")
            code = int(plain)
        return subprocess.CompletedProcess(command, code, out, "")

    monkeypatch.setattr(script, "child", child)
    monkeypatch.setattr(script, "lacking", lambda setting: "")
    return asked


def test_what_a_setting_switches_off(script):
    native, avx2, plain, two = (
        script.environment(n, FOUND) for n in ("native", "avx2", "plain", "two-threads")
    )
    assert "NPY_DISABLE_CPU_FEATURES" not in {*native, *two}
    assert avx2["NPY_DISABLE_CPU_FEATURES"] == "X86_V4 AVX512_ICL"
    assert plain["NPY_DISABLE_CPU_FEATURES"] == "X86_V3 X86_V4 AVX512_ICL"
    assert (native["OMP_NUM_THREADS"], two["OMP_NUM_THREADS"]) == ("1", "2")
    assert len({v["NUMBA_CACHE_DIR"] for v in (native, avx2, plain, two)}) == 4


def test_an_unknown_setting_is_one_line(script, capsys):
    assert script.main(["--setting", "sparc"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "setting must be one of native, avx2, plain, two-threads, four-threads, got 'sparc'" in (
        said
    )


def test_a_feature_that_is_not_there_is_one_line_and_no_failure(
    played, script, monkeypatch, capsys
):
    monkeypatch.setattr(script, "lacking", lambda setting: ", ".join(setting["needs"]))
    assert script.main(["--setting", "avx2"]) == 0
    assert capsys.readouterr().out == "avx2: not run, it needs avx2, fma\n"
    assert len(played) == 1  # NumPy was asked, no test was run


def test_what_a_processor_lacks(script, monkeypatch):
    monkeypatch.setattr(script.platform, "machine", lambda: "arm64")
    assert script.lacking(script.SETTINGS["native"]) == ""
    assert script.lacking(script.SETTINGS["avx2"]) == "an x86-64 processor, this is arm64"


def test_the_record_says_what_ran_and_what_differed(played, script, tmp_path, capsys):
    path = tmp_path / "portable.json"
    assert script.main(["--out", str(path)]) == 1
    record = json.loads(path.read_text())
    rows = {row["setting"]: row for row in record["settings"]}
    assert list(rows) == ["native", "avx2", "plain", "two-threads", "four-threads"]
    assert rows["plain"]["failures"] == ["tests.test_a::test_c", "tests.test_a::test_c"]
    assert [row["green"] for row in rows.values()] == [True, True, False, True, True]
    assert rows["plain"]["differences"] == {"a sum": 0.25, "a zero": 0.0}
    assert rows["avx2"]["numpy"] == ["X86_V3"]
    assert "failed: tests.test_a::test_c" in capsys.readouterr().out
    for _, command in played:
        if command[0] == "-m" and script.PAGES[0] not in command:
            assert set(script.TESTS) <= set(command)


def test_the_selection_writes_no_record(played, script, tmp_path):
    path = tmp_path / "portable.json"
    assert script.main(["--selection", "--out", str(path)]) == 1
    assert not path.exists()
    chosen = [command for _, command in played if command[0] == "-m"]
    assert len(chosen) == 2
    assert all(set(script.SELECTION) <= set(command) for command in chosen)


def test_the_tests_that_are_named_are_there(script):
    for name in (*script.TESTS, *script.SELECTION, script.PAGES[0]):
        assert (ROOT / name).exists(), name
    assert script.PAGES[2] in (ROOT / script.PAGES[0]).read_text(encoding="utf-8")
