"""What is installed, run and trusted: pins, workflows, the audit of pins, imports, secrets."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
#: What each job may do beyond reading; nothing else may write.
WRITES = {
    ("publish", "deploy"): {"pages", "id-token"},
    ("publish", "notebooks"): {"contents"},
    ("update", "propose"): {"contents", "pull-requests"},
}
#: The first version of each action for Node 24: since September 2026 runners no longer have Node 20
#: (GitHub's changelog, 2025-09-19: deprecation of Node 20 on GitHub Actions runners).
NODE_24 = {
    "checkout": 5,
    "configure-pages": 6,
    "deploy-pages": 5,
    "download-artifact": 7,
    "setup-python": 6,
    "upload-artifact": 6,
    "upload-pages-artifact": 5,
}
#: Actions that jobs which may write may use: none of them runs what a package brought.
PLAIN = {"checkout", "download-artifact", "deploy-pages"}


# ------------------------------------------------------------------ credentials

SECRETS = {
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----",
    "a key of AWS": r"A[KS]IA[0-9A-Z]{16}\b",
    "a token of GitHub": r"g(?:h[pousr]_[A-Za-z0-9]{36}|ithub_pat_[A-Za-z0-9_]{40,})",
    "a token of PyPI": r"pypi-AgE[A-Za-z0-9_-]{20,}",
    "a token of Slack": r"xox[abprs]-[A-Za-z0-9-]{10,}",
    "a key of Google": r"AIza[0-9A-Za-z_-]{35}\b",
    "a token of Hugging Face": r"hf_[A-Za-z0-9]{30,}\b",
    "a password": r"(?i)\b(?:password|passwd|api_key|secret|token)\s*[:=]\s*['\"][^'\"\s]{8,}['\"]",
    "a password in an address": r"https?://[^/\s:@$\"'{}]+:[^/\s:@$\"'{}]+@",
}


SAMPLES = (
    *("-----BEGIN RSA PRIVATE KEY-----", "AKIA" + "ABCDEFGHIJKLMNOP", "ghp_" + "a" * 36),
    *("password = 'correct-horse'", "https://me:secret@example.org"),
)


def secrets(text: str) -> list[str]:
    return [what for what, known in SECRETS.items() if re.search(known, text)]


def test_no_credentials():
    assert all(map(secrets, SAMPLES))
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and ROOT / name != Path(__file__):
            assert secrets((ROOT / name).read_bytes().decode("utf-8", "replace")) == [], name


# ------------------------------------------------------------------ workflows


@pytest.fixture(scope="module")
def workflows():
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in WORKFLOWS}


def steps(workflow):
    """Name of the job, and step, of each step."""
    return [(name, step) for name, job in workflow["jobs"].items() for step in job.get("steps", [])]


def test_only_actions_of_github_by_their_commit(workflows):
    """With the version as a comment, for people."""
    used = {
        step["uses"] for each in workflows.values() for _, step in steps(each) if "uses" in step
    }
    assert used
    assert not [each for each in used if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", each)]
    for path in WORKFLOWS:
        for line in path.read_text(encoding="utf-8").splitlines():
            if "uses: actions/" in line:
                found = re.search(r"actions/([\w-]+)@[0-9a-f]{40} # v(\d+)\.\d+\.\d+$", line)
                assert found, (path.name, line)
                assert int(found[2]) >= NODE_24[found[1]], (path.name, line)


def test_a_step_leaves_no_token_behind_and_is_no_program_of_others(workflows):
    """Tokens are for jobs that may write; pull requests have no rights of the repository."""
    for file, workflow in workflows.items():
        assert not {"pull_request_target", "workflow_run"} & {*workflow[True]}, file  # `on:`
        for name, step in steps(workflow):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name
            assert "${{" not in step.get("run", ""), name  # text that others choose
            if "github.token" in str(step) or "secrets." in str(step):
                assert (file, name) in WRITES


def test_who_may_write_runs_nothing_of_a_package(workflows):
    for (workflow, name), _ in WRITES.items():
        job = workflows[workflow]["jobs"][name]
        for step in job["steps"]:
            action = step.get("uses", "actions/none@").partition("@")[0].removeprefix("actions/")
            assert action in PLAIN | {"none"}, (name, action)
            ran = step.get("run", "")
            assert not re.search(r"\b(make|pip|python|papermill|bash|sh)\b", ran), name


def needed(jobs, name):
    """Jobs that a job waits for, directly or through others."""
    direct = jobs[name].get("needs", [])
    direct = {direct} if isinstance(direct, str) else set(direct)
    return direct.union(*(needed(jobs, each) for each in direct))


def test_what_is_published_was_tested(workflows):
    """The same commit, by the workflow `test`, which is all of CI."""
    jobs = workflows["publish"]["jobs"]
    assert jobs["test"]["uses"] == "./.github/workflows/test.yml"
    assert "workflow_call" in workflows["test"][True]
    *_, last = [step["run"] for _, step in steps(workflows["test"]) if "run" in step]
    assert last == "bash .ci/run"
    for name in ("build", "deploy", "notebooks"):
        assert "test" in needed(jobs, name)
        assert "always()" not in str(jobs[name].get("if", ""))
    assert {"build", "test"} <= needed(jobs, "deploy")
    builds = [name for name, step in steps(workflows["publish"]) if "make" in step.get("run", "")]
    assert builds == ["build"]
    assert "ref" not in str(jobs["build"]["steps"][0].get("with"))  # the commit that was tested


def test_nobody_may_write_more_than_needed(workflows):
    for name, workflow in workflows.items():
        assert name == "test" or "permissions" in workflow, name
        parts = {None: workflow, **workflow["jobs"]}
        for job, part in parts.items():
            given = part.get("permissions", {})
            assert isinstance(given, dict), (name, job, "write-all or read-all")
            writes = {what for what, how in given.items() if how == "write"}
            assert writes == WRITES.get((name, job), set()), (name, job)


def test_updates_keep_what_must_stay(program):
    update = program("update")
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pins = update.read(text)
    project = {
        "dependencies": ["jupyter-book>=1.0.4,<2", "numpy>=2.0"],
        "optional-dependencies": {"test": ["pytest>=8.3"], "training": ["opacus>=1.5"]},
    }
    asked = update.wanted(pins, project)
    assert f"torch=={pins['torch']}" in asked
    assert f"jupyter-book=={pins['jupyter-book']}" in asked
    assert {"numpy>=2.0", "pytest>=8.3", "opacus>=1.5", "numpy", "pytest"} <= set(asked)
    assert len(asked) == len(pins) + 4
    found = {**pins, "numpy": "2.9.0", "torch": pins["torch"] + "+cpu", "nvidia-cublas": "1.0"}
    after = update.read(update.written(text, found))
    assert after == {**pins, "numpy": "2.9.0"}
    assert update.written(text, pins) == update.written(update.written(text, pins), pins)


# ------------------------------------------------------------------ the audit of dependencies

DEPENDENCIES = [
    {"name": "good", "version": "1", "vulns": []},
    {
        "name": "bad",
        "version": "2",
        "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-2026-1"], "fix_versions": ["3"]}],
    },
]
REPORT = {"dependencies": DEPENDENCIES}


@pytest.fixture
def audit(program, monkeypatch, tmp_path):
    """The audit of this project's pins, which installs nothing: its status for what is ignored."""
    audit = program("audit")
    monkeypatch.delenv("COMPANION_OFFLINE", raising=False)
    (tmp_path / ".ci").mkdir()
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    monkeypatch.setattr(audit.venv, "create", lambda *_, **__: None)
    done = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: done)

    def status(compare=lambda *_: REPORT, ignored=""):
        (tmp_path / ".ci/audit.ignore").write_text(ignored)
        monkeypatch.setattr(audit, "compare", compare)
        return audit.main()

    return status


def refused(program, file, service):
    raise ValueError("404")


def only_second(program, file, service):
    return refused(program, file, service) if service == "pypi" else REPORT


def partly(program, file, service):
    """One is compared, the other two are not."""
    left = [{"name": "own", "skip_reason": "not found on PyPI"}, {"name": "odd", "version": "1"}]
    return REPORT if file.name == "canary.txt" else {"dependencies": [*DEPENDENCIES[:1], *left]}


@pytest.mark.parametrize(
    ("compare", "ignored", "status", "said"),
    [
        (lambda *_: REPORT, "", 1, "error: pip-audit: bad 2: PYSEC-1, CVE-2026-1, fixed in 3"),
        (lambda *_: REPORT, "# why\n\nCVE-2026-1: not used\n", 0, "(ignored: not used)"),
        (only_second, "PYSEC-1: not used\n", 0, "2 packages compared, 0 open, 1 ignored"),
        (refused, "", 1, "nothing was compared: pypi gave no answer (404)"),
        (lambda *_: {"dependencies": DEPENDENCIES[:1]}, "", 1, "knows of nothing"),  # a mirror
        (partly, "", 0, "not compared: own: not found on PyPI"),
        (partly, "", 0, "not compared: odd: no answer"),
        (partly, "", 0, "1 packages compared, 0 open"),
    ],
)
def test_ci_fails_on_an_open_finding_or_if_nothing_was_compared(
    audit, capsys, compare, ignored, status, said
):
    assert audit(compare, ignored) == status
    assert said in "".join(capsys.readouterr())


@pytest.mark.parametrize("line", ["CVE-2026-1", "CVE-2026-1:", "CVE-2026-1:   "])
def test_what_is_ignored_has_a_reason(audit, line):
    with pytest.raises(SystemExit, match="line 1"):
        audit(ignored=line)


def test_offline_says_so_in_words(audit, monkeypatch, capsys):
    monkeypatch.setenv("COMPANION_OFFLINE", "yes")
    assert audit(refused) == 0
    assert "nothing was compared" in capsys.readouterr().out


def test_ci_ends_with_the_audit():
    """Which no other step may leave out: where the lists cannot be reached, it says so."""
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").strip().splitlines()
    assert lines[-1] == ".venv/bin/python .ci/audit"
    (offline,) = [k for k, line in enumerate(lines) if line.strip() == "export COMPANION_OFFLINE=1"]
    assert offline == len(lines) - 3
    assert "api.osv.dev" in "".join(lines[offline - 5 : offline])
