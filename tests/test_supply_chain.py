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
    "a key of AWS": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a token of GitHub": r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40,})",
    "a token of PyPI": r"\bpypi-AgE[A-Za-z0-9_-]{20,}",
    "a token of Slack": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "a key of Google": r"\bAIza[0-9A-Za-z_-]{35}\b",
    "a token of Hugging Face": r"\bhf_[A-Za-z0-9]{30,}\b",
    "a password": r"(?i)\b(?:password|passwd|api_key|secret|token)\s*[:=]\s*['\"][^'\"\s]{8,}['\"]",
    "a password in an address": r"https?://[^/\s:@$\"'{}]+:[^/\s:@$\"'{}]+@",
}


def test_no_credentials():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and ROOT / name != Path(__file__):
            text = (ROOT / name).read_bytes().decode("utf-8", "replace")
            assert not [what for what, known in SECRETS.items() if re.search(known, text)], name


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


def test_somebody_looks_for_newer_actions():
    settings = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text(encoding="utf-8"))
    (update,) = settings["updates"]
    assert (update["package-ecosystem"], update["directory"]) == ("github-actions", "/")
    assert update["cooldown"]["default-days"] >= 7  # a release that is withdrawn is so soon


def test_nothing_is_installed_beside_what_the_image_of_the_runner_has(workflows):
    """Chromium is there (runner-images, Ubuntu2604-Readme.md); Ubuntu's package of it is a snap."""
    for workflow in workflows.values():
        for name, step in steps(workflow):
            assert not re.search(r"\b(apt|apt-get|snap)\b", step.get("run", "")), name


def test_no_checkout_leaves_a_token_behind(workflows):
    for workflow in workflows.values():
        for name, step in steps(workflow):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name


def test_who_may_write_runs_nothing_of_a_package(workflows):
    for (workflow, name), _ in WRITES.items():
        job = workflows[workflow]["jobs"][name]
        for step in job["steps"]:
            action = step.get("uses", "actions/none@").partition("@")[0].removeprefix("actions/")
            assert action in PLAIN | {"none"}, (name, action)
            ran = step.get("run", "")
            assert not re.search(r"\b(make|pip|python|papermill|bash|sh)\b", ran), name


def test_tokens_are_given_to_those_alone_who_may_write(workflows):
    for file, workflow in workflows.items():
        for name, step in steps(workflow):
            if "github.token" in str(step) or "secrets." in str(step):
                assert (file, name) in WRITES


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


def test_pull_requests_do_not_run_with_the_rights_of_the_repository(workflows):
    for name, workflow in workflows.items():
        on = workflow[True]  # YAML 1.1 reads the key `on` as true
        assert "pull_request_target" not in on, name
        assert "workflow_run" not in on, name
        for _, step in steps(workflow):
            # Text that others choose must not become part of a program.
            assert "${{" not in step.get("run", ""), name


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

REPORT = {
    "dependencies": [
        {"name": "good", "version": "1", "vulns": []},
        {
            "name": "bad",
            "version": "2",
            "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-2026-1"], "fix_versions": ["3"]}],
        },
    ]
}


def test_a_finding_without_a_reason_is_open(program):
    audit = program("audit")
    assert audit.findings(REPORT, {}) == (["bad 2: PYSEC-1, CVE-2026-1, fixed in 3"], [])
    open_, known = audit.findings(REPORT, {"CVE-2026-1": "not reachable from here"})
    assert open_ == []
    assert known[0].endswith("(ignored: not reachable from here)")


def test_what_is_ignored_has_a_reason(program):
    audit = program("audit")
    audit.ignored((ROOT / ".ci/audit.ignore").read_text(encoding="utf-8"))
    assert audit.ignored("# why\n\nCVE-2026-1: it is not used\n") == {
        "CVE-2026-1": "it is not used"
    }
    for line in ("CVE-2026-1", "CVE-2026-1:", "CVE-2026-1:   "):
        with pytest.raises(SystemExit, match="line 1: must be 'ID: reason'"):
            audit.ignored(line)


@pytest.fixture
def audit(program, monkeypatch, tmp_path):
    """The audit of this project's pins, which installs nothing."""
    audit = program("audit")
    monkeypatch.delenv("COMPANION_OFFLINE", raising=False)
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/audit.ignore").touch()
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    monkeypatch.setattr(audit.venv, "create", lambda *_, **__: None)
    done = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: done)
    return audit


def test_an_audit_that_compared_nothing_fails(audit, monkeypatch, capsys):
    failed = subprocess.CompletedProcess([], 1, "", "warning\nno route to the index\n")
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: failed)
    assert audit.main() == 1
    assert "error: pip-audit: nothing was compared" in capsys.readouterr().err


def test_offline_says_so_in_words(audit, monkeypatch, capsys):
    monkeypatch.setenv("COMPANION_OFFLINE", "yes")
    assert audit.main() == 0
    assert "nothing was compared" in capsys.readouterr().out


@pytest.mark.parametrize(("known", "status"), [("", 1), ("CVE-2026-1: not used", 0)])
def test_ci_fails_on_an_open_finding_only(audit, monkeypatch, capsys, known, status):
    (audit.ROOT / ".ci/audit.ignore").write_text(known)
    monkeypatch.setattr(audit, "compare", lambda *_: REPORT)
    assert audit.main() == status
    said = capsys.readouterr()
    assert ("bad 2" in said.err) == bool(status)
    assert "2 packages compared" in said.out


EMPTY = {"dependencies": [{"name": "urllib3", "version": "1.24.1", "vulns": []}]}


def test_a_list_without_anything_is_none(audit, monkeypatch, capsys):
    """As of a mirror; the other list is asked, and without either nothing was compared."""
    monkeypatch.setattr(audit, "compare", lambda *_: EMPTY)
    assert audit.main() == 1
    assert "knows of nothing" in capsys.readouterr().err

    def second(program, file, service):
        if service == "pypi":
            raise ValueError("404")
        return REPORT

    monkeypatch.setattr(audit, "compare", second)
    (audit.ROOT / ".ci/audit.ignore").write_text("PYSEC-1: not used\n")
    assert audit.main() == 0
    assert "2 packages compared" in capsys.readouterr().out


def test_only_what_was_compared_is_counted(audit, monkeypatch, capsys):
    left = {"name": "own", "skip_reason": "not found on PyPI"}
    report = {"dependencies": [REPORT["dependencies"][0], left, {"name": "odd", "version": "1"}]}

    def compare(program, file, service):
        return REPORT if file.name == "canary.txt" else report

    monkeypatch.setattr(audit, "compare", compare)
    assert audit.main() == 0
    out = capsys.readouterr().out
    for part in ("own: not found on PyPI", "odd: no answer", "1 packages compared, 0 open"):
        assert part in out
    report["dependencies"] = [left]
    assert audit.main() == 1


def test_ci_ends_with_the_audit():
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").strip().splitlines()
    assert lines[-1] == ".venv/bin/python .ci/audit"
    # For nothing but this step, and nowhere but where the lists cannot be reached.
    (offline,) = [k for k, line in enumerate(lines) if line.strip() == "export COMPANION_OFFLINE=1"]
    assert offline == len(lines) - 3
    assert "api.osv.dev" in "".join(lines[offline - 5 : offline])


def test_the_page_is_part_of_the_book_and_names_what_there_is():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    assert "security" in {entry["file"] for part in toc["parts"] for entry in part["chapters"]}
    page = (ROOT / "book/security.md").read_text(encoding="utf-8")
    assert "book/security.md" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for path in re.findall(r"`(\.ci/[\w.]+|requirements\.txt|pyproject\.toml)`", page):
        assert (ROOT / path).exists()
