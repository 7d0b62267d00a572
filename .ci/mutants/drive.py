#!/usr/bin/env python3
"""Mutate modules of `lib` with mutmut, and run the tests that touch each mutant.

To be run in the root of a throw-away copy of the checkout (`.ci/mutants/run` makes one): it
overwrites `lib`. mutmut makes the mutants and switches them on; they are run here, not by `mutmut
run`, because that begins and collects a pytest session for every mutant. One session is collected
here, and a process forked from it for every mutant.

Functions that are compiled or are properties are mutated like others: before mutation `@njit` is
taken off and a property's function gets a name of its own.
"""

import argparse
import contextlib
import difflib
import importlib
import json
import os
import pickle
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

HERE = Path(__file__).resolve().parent
CONFIG = tomllib.loads((HERE / "config.toml").read_text(encoding="utf-8"))
OUT = Path("mutants")
NONE = "lib.x_none__mutmut_0"  # a mutant that there is not
HEAD = 12  # tests that are chosen one by one; the others are taken by file, for their fixtures
PER_TEST = 4.0  # seconds of a core on top of ten times what a test takes without a mutant
WALL = 180.0


# ------------------------------------------------------------------ making the mutants


def plain(source: str) -> str:
    """The source with every function that mutmut would pass over as a plain one."""
    source = re.sub(r"^@njit(\(.*\))?\n", "", source, flags=re.M)
    return re.sub(
        r"^( +)@((?:functools\.)?cached_property|property)\n +def (\w+)\(self\)",
        r"\1\3 = \2(lambda self: self.plain_\3())\n\n\1def plain_\3(self)",
        source,
        flags=re.M,
    )


def change(before: list[str], after: list[str]) -> tuple[str, str]:
    """The lines that differ, stripped and joined."""
    out, into = [], []
    for line in difflib.unified_diff(before, after, n=0, lineterm=""):
        if line.startswith("-") and not line.startswith("---"):
            out.append(line[1:].strip())
        elif line.startswith("+") and not line.startswith("+++"):
            into.append(line[1:].strip())
    return " ".join(out), " ".join(into)


def generate() -> dict[str, dict]:
    """Write the mutated modules, and describe their mutants."""
    found = {}
    for package, modules in CONFIG["modules"].items():
        for module in modules:
            dotted = f"lib.{package}.{module}".replace("lib.lib.", "lib.")
            path = Path(*dotted.split(".")).with_suffix(".py")
            kept = OUT / "originals" / path
            if not kept.exists():
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, kept)
            mutated = mutate_file_contents(str(path), plain(kept.read_text(encoding="utf-8")))
            path.write_text(mutated.code, encoding="utf-8")
            lines, spans = mutated.code.split("\n"), mutated.line_span_by_function_name

            def text(name: str, of: str, lines=lines, spans=spans) -> list[str]:
                lines = lines[spans[name].start - 1 : spans[name].end]
                return [line.replace(name, of) for line in lines]

            for name in mutated.mutant_names:
                base = name.partition("__mutmut_")[0]
                function = base.removeprefix("x_").replace("xǁ", "", 1).replace("ǁ", ".")
                function = function.replace("plain_", "")
                old, new = change(text(f"{base}__mutmut_orig", "f"), text(name, "f"))
                found[f"{dotted}.{name}"] = {
                    "package": package,
                    "module": dotted,
                    "function": function,
                    "key": f"{dotted}.{base}",
                    "old": old,
                    "new": new,
                }
    return found


# ------------------------------------------------------------------ running them


def too_slow(*_) -> None:
    """End a test whose share of the time is used up."""
    raise TimeoutError("too slow to run on mutants")


class Failure:
    """Remembers the first report of a failure."""

    def __init__(self):
        self.by, self.why = None, ""

    def pytest_runtest_logreport(self, report):
        """One phase of one test."""
        if report.failed and self.by is None:
            self.by = report.nodeid
            text = str(report.longrepr).strip().splitlines()
            self.why = text[-1][:200] if text else ""


class Driver:
    """The loop over mutants in place of pytest's loop over tests."""

    def __init__(self, options):
        self.options, self.failure = options, Failure()
        kept = OUT / "mutants.json"
        if options.keep and kept.exists():
            self.mutants = json.loads(kept.read_text(encoding="utf-8"))
            return
        self.mutants = generate()
        kept.write_text(json.dumps(self.mutants, indent=1, ensure_ascii=False), encoding="utf-8")

    def pytest_configure(self, config):
        """The same examples in every run, few of them, and none made smaller."""
        import hypothesis

        # The profile of the property tests is registered by their conftest.py, which is read first.
        for name in ("mutants", "properties"):
            hypothesis.settings.register_profile(
                name,
                derandomize=True,
                database=None,
                deadline=None,
                max_examples=CONFIG["examples"],
                phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
                suppress_health_check=list(hypothesis.HealthCheck),
            )
        hypothesis.settings.load_profile("mutants")
        config.pluginmanager.register(self.failure)

    def pytest_runtestloop(self, session):
        """All mutants instead of all tests."""
        self.items = {item.nodeid: item for item in session.items}
        # How long a call takes on a busy machine says nothing about a mutant.
        sys.modules["test_malformed_calls"].SECONDS = 1e9
        self.factory = session.config._tmp_path_factory
        self.temporary = Path(tempfile.mkdtemp(prefix="mutants-"))
        try:
            self.baseline(list(session.items))
            if not self.options.baseline:
                self.loop()
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)
        return True

    def protocol(self, items) -> None:
        """Run tests in this process until one fails."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            limit = PER_TEST + 10 * self.cost.get(item.nodeid, 60.0)
            signal.setitimer(signal.ITIMER_PROF, limit)  # ends the process
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failure.by is not None:
                return
        signal.setitimer(signal.ITIMER_PROF, 0)

    def child(self, name: str) -> None:
        """Set a forked process up."""
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(2 if self.options.verbose else 3):
            os.dup2(null, stream)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
        self.factory._given_basetemp = self.temporary / str(os.getpid())
        self.factory._basetemp = None
        set_mutant_under_test(name)
        module = name.rpartition(".")[0]
        if made := CONFIG["import_time"].get(module):
            self.make_again(module, made["name"], made["expression"])

    @staticmethod
    def make_again(module: str, name: str, expression: str) -> None:
        """Evaluate what was evaluated at import, wherever it was imported to."""
        space = vars(sys.modules[module])
        old = space[name]
        try:
            new = eval(expression, space)
        except BaseException:
            os._exit(1)  # the module could not be imported: no test would pass
        for other in list(sys.modules.values()):
            for key, value in list(getattr(other, "__dict__", {}).items()):
                if value is old:
                    setattr(other, key, new)

    def baseline(self, items) -> None:
        """Which tests pass with the trampolines in place, what they take, what they touch."""
        kept = OUT / "baseline.pickle"
        facts = {"tests": {}, "imported": []}
        if self.options.keep and kept.exists():
            facts = pickle.loads(kept.read_bytes())  # noqa: S301  # our own
        if new := [item for item in items if item.nodeid not in facts["tests"]]:
            facts = self.measure(new, kept, facts)
        for name in facts["imported"]:  # so that children need not
            before = set(sys.modules)
            try:
                importlib.import_module(name)
            except Exception:  # what it imported before would make its own import go wrong later
                for left in set(sys.modules) - before:
                    del sys.modules[left]
        self.cost = {name: max(cpu, 0.002) for name, (_, cpu, _) in facts["tests"].items()}
        self.breadth = {name: 1 + len(hits) for name, (_, _, hits) in facts["tests"].items()}
        self.touching = defaultdict(list)
        slow, broken = [], []
        for name, (passed, cpu, hits) in facts["tests"].items():
            if cpu > CONFIG["slowest"]:
                slow.append(name)
            elif not passed:
                broken.append(name)
            elif name in self.items:
                for hit in hits:
                    self.touching[hit].append(name)
        for module, made in CONFIG["import_time"].items():
            key = f"{module}.x_{made['expression'].removesuffix('()')}"
            self.touching[key] = [
                name
                for name, (passed, cpu, _) in facts["tests"].items()
                if passed and cpu <= CONFIG["slowest"] and name.startswith(made["tests"])
            ]
        total = sum(cpu for _, cpu, _ in facts["tests"].values())
        print(
            f"{len(facts['tests'])} tests, {total:.0f} s; left out: {len(slow)} slow, {len(broken)}"
            " that fail with trampolines in place",
            flush=True,
        )
        self.left_out = {"slow": sorted(slow), "failing": sorted(broken)}
        self.used = len(facts["tests"]) - len(slow) - len(broken)
        (OUT / "tests.json").write_text(
            json.dumps(
                self.left_out
                | {"used": self.used, "seconds": {k: round(v, 3) for k, v in self.cost.items()}},
                indent=1,
            )
        )

    def measure(self, items, kept: Path, facts: dict) -> dict:
        """Run tests that were not run before in a process of its own."""
        pid = os.fork()
        if not pid:
            self.cost = {}
            self.child("stats")
            signal.signal(signal.SIGPROF, too_slow)
            before = set(sys.modules)
            for item, following in zip(items, [*items[1:], None], strict=True):
                state()._stats.clear()
                self.failure.by = None
                start = time.process_time()
                signal.setitimer(signal.ITIMER_PROF, 1.5 * CONFIG["slowest"])
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                signal.setitimer(signal.ITIMER_PROF, 0)
                cpu, passed = time.process_time() - start, self.failure.by is None
                facts["tests"][item.nodeid] = passed, cpu, set(state()._stats)
                if self.options.verbose:
                    why = "" if passed else self.failure.why
                    print(f"{cpu:7.2f} {item.nodeid} {why}", file=sys.stderr, flush=True)
                if following is None or following.path != item.path:
                    names = [name for name in sys.modules if name not in before]
                    facts["imported"] = [*dict.fromkeys([*facts["imported"], *names])]
                    kept.write_bytes(pickle.dumps(facts))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status:
            raise SystemExit(f"error: the tests ended the process without a mutant ({status})")
        return pickle.loads(kept.read_bytes())  # noqa: S301  # our own

    def tests_of(self, key: str, kills: Counter) -> list[str]:
        """Tests for a mutant within the budget: likely killers first, the others by file."""

        def promise(name: str) -> float:
            score = kills[key, name] + 0.2 * kills[key.rpartition(".")[0], name]
            score += 0.1 / self.breadth[name]  # who touches few functions looks closer at them
            return -score / (self.cost[name] + 0.02)

        spent, chosen = 0.0, []
        for name in sorted(self.touching[key], key=promise):
            if spent + self.cost[name] <= CONFIG["budget"]:
                spent += self.cost[name]
                chosen.append(name)
        head, tail = chosen[:HEAD], chosen[HEAD:]
        files = defaultdict(list)
        for name in tail:
            files[name.partition("::")[0]].append(name)
        return head + [name for group in files.values() for name in group]

    def start(self, name: str, tests: list[str]) -> tuple[int, int]:
        """Fork a process that runs tests on a mutant: its number, and where its result comes."""
        source, sink = os.pipe()
        pid = os.fork()
        if pid:
            os.close(sink)
            return pid, source
        status = 0
        try:
            os.close(source)
            self.child(name)
            self.protocol([self.items[test] for test in tests])
            if self.failure.by is not None:
                status = 1
                os.write(sink, json.dumps([self.failure.by, self.failure.why]).encode())
        except BaseException as error:
            status = 1
            with contextlib.suppress(BaseException):
                os.write(sink, json.dumps(["", f"{type(error).__name__}: {error}"[:300]]).encode())
        os._exit(status)

    def loop(self) -> None:
        """All mutants, in random order."""
        results = OUT / "results.jsonl"
        known = {}
        if results.exists():
            known = {r["id"]: r for r in map(json.loads, results.read_text().splitlines())}
        rng = random.Random(CONFIG["seed"])
        queue = sorted(self.mutants)
        rng.shuffle(queue)
        if self.options.only:
            wanted = set(Path(self.options.only).read_text().split("\n"))
            queue = [name for name in queue if name in wanted]
        else:
            queue = [name for name in queue if name not in known]
        keys = sorted({m["key"] for m in self.mutants.values() if self.touching[m["key"]]})
        controls = rng.sample(keys, min(CONFIG["controls"], len(keys)))
        controls = [key for key in controls if f"control:{key}" not in known]
        if self.options.only:
            controls = []
        stop = time.monotonic() + 60 * self.options.minutes
        waiting = [(f"control:{key}", NONE, key) for key in controls]
        waiting += [(name, name, self.mutants[name]["key"]) for name in queue]
        waiting.reverse()
        running, kills, done = {}, Counter(), Counter()
        for name, row in known.items():  # what killed before may kill again
            if row.get("by") in self.cost and name in self.mutants:
                key = self.mutants[name]["key"]
                kills[key, row["by"]] += 1
                kills[key.rpartition(".")[0], row["by"]] += 1
        poll, began = select.poll(), time.monotonic()
        with results.open("a", encoding="utf-8") as sink:
            while running or (waiting and time.monotonic() < stop):
                while waiting and len(running) < CONFIG["workers"] and time.monotonic() < stop:
                    label, name, key = waiting.pop()
                    tests = self.tests_of(key, kills)
                    if not tests:
                        row = {"id": label, "status": "no tests"}
                        done["no tests"] += 1
                        sink.write(json.dumps(row) + "\n")
                        continue
                    pid, source = self.start(name, tests)
                    poll.register(source, select.POLLIN | select.POLLHUP)
                    running[source] = (label, key, pid, time.monotonic(), len(tests))
                for source, _ in poll.poll(1000):
                    label, key, pid, since, n = running.pop(source)
                    poll.unregister(source)
                    said = b""
                    while part := os.read(source, 65536):
                        said += part
                    os.close(source)
                    _, status, usage = os.wait4(pid, 0)
                    shutil.rmtree(self.temporary / str(pid), ignore_errors=True)
                    row = {"id": label, "status": self.verdict(status), "tests": n}
                    row["cpu"] = round(usage.ru_utime + usage.ru_stime, 2)
                    if said:
                        row["by"], row["why"] = json.loads(said)
                        if row["by"] and not label.startswith("control:"):
                            kills[key, row["by"]] += 1
                            kills[key.rpartition(".")[0], row["by"]] += 1
                    done[row["status"]] += 1
                    sink.write(json.dumps(row, ensure_ascii=False) + "\n")
                    sink.flush()
                    if label.startswith("control:") and row["status"] != "survived":
                        print(f"error: without a mutant: {row}", flush=True)
                    if sum(done.values()) % 100 == 0:
                        print(
                            f"{time.monotonic() - began:6.0f} s, {len(waiting)} left: {dict(done)}",
                            flush=True,
                        )
                for _, _, pid, since, _ in list(running.values()):
                    if time.monotonic() - since > WALL:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGXCPU)
        print(f"{time.monotonic() - began:.0f} s: {dict(done)}", flush=True)

    @staticmethod
    def verdict(status: int) -> str:
        """What the end of a process means."""
        if os.WIFSIGNALED(status):
            timed = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGXCPU)
            return "timeout" if timed else "crash"
        return "killed" if os.WEXITSTATUS(status) else "survived"


def main() -> int:
    """Mutate, collect, run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no mutant after")
    parser.add_argument("--only", help="file with the names of the mutants to run, one a line")
    parser.add_argument("--baseline", action="store_true", help="run no mutants")
    parser.add_argument("--keep", action="store_true", help="keep the last baseline")
    parser.add_argument("--verbose", action="store_true", help="show the baseline's tests")
    options = parser.parse_args()
    if Path(".git").exists() or not Path("lib").is_dir():
        raise SystemExit("error: run it in a throw-away copy, which has lib and no .git")
    OUT.mkdir(exist_ok=True)
    sys.path.insert(0, os.getcwd())
    tests = CONFIG["tests"]
    arguments = [
        "-o",
        "addopts=",
        "--strict-markers",
        "-s",
        "-q",
        "--tb=line",
        "-m",
        tests["marks"],
    ]
    for plugin in ("xdist", "cacheprovider", "pytest_cov", "benchmark", "faulthandler"):
        arguments += ["-p", f"no:{plugin}"]
    arguments += [f"--ignore={path}" for path in tests["ignore"]]
    status = pytest.main([*arguments, *tests["paths"]], plugins=[Driver(options)])
    return 0 if status in (0, 5) else int(status)


if __name__ == "__main__":
    sys.exit(main())
