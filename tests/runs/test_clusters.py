"""CLUSTERS.md, followed to the letter, on a cluster of this machine in the place of the others."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from jobs_for_tests import Walk, executions

import lib.runs
from lib.runs import RunStore, executor_for

TEXT = Path(lib.runs.__file__).with_name("CLUSTERS.md").read_text(encoding="utf-8")
ANY, SLURM, KUBERNETES = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def address():
    """Of a scheduler with one worker."""
    pytest.importorskip("distributed", reason="the optional extra 'cluster' is not installed")
    with executor_for("local-cluster:1") as client:
        client.wait_for_workers(1, timeout=60)
        yield client.scheduler.address


def follow(code, tmp_path, monkeypatch, folder="/shared/runs", **modules):
    """Execute an example on three jobs, with a folder of this machine for the shared one."""
    for name, members in modules.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name.replace("__", "."), module)
    assert code.count(folder) == (folder in code)
    jobs = [Walk(str(tmp_path), seed=seed, steps=5) for seed in range(3)]
    names = {"jobs": jobs}
    exec(compile(code.replace(folder, str(tmp_path / "runs")), "CLUSTERS.md", "exec"), names)
    assert [executions(tmp_path, seed) for seed in range(3)] == [1, 1, 1]
    store = RunStore(tmp_path / "runs")
    assert [run.key for run in names["runs"]] == [store.get(job).key for job in jobs]
    return names


class Cluster:
    """What a Dask client needs of a cluster, and what it was made with."""

    status = "running"

    def __init__(self, address, options):
        self.scheduler_address, self.options, self.scaled = address, options, None

    def scale(self, jobs):
        self.scaled = jobs

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.slow
def test_any_scheduler(address, tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path / "runs"))
    follow(ANY.replace("tcp://host:8786", address), tmp_path, monkeypatch)


@pytest.mark.slow
def test_slurm(address, tmp_path, monkeypatch):
    module = {"SLURMCluster": lambda **options: Cluster(address, options)}
    folder = "/shared/companion/runs"
    made = follow(SLURM, tmp_path, monkeypatch, folder, dask_jobqueue=module)["cluster"]
    assert made.scaled == 8
    assert (made.options["cores"], made.options["processes"]) == (1, 1)
    assert made.options["job_extra_directives"] == ["--gres=gpu:1"]


@pytest.mark.slow
def test_kubernetes(address, tmp_path, monkeypatch):
    def spec(**options):
        worker = {"containers": [{"name": options["name"]}]}
        return {"spec": {"worker": {"spec": worker}}, "options": options}

    def cluster(custom_cluster_spec):
        return Cluster(address, custom_cluster_spec)

    module = {"KubeCluster": cluster, "make_cluster_spec": spec}
    modules = {"dask_kubernetes": {}, "dask_kubernetes__operator": module}
    made = follow(KUBERNETES, tmp_path, monkeypatch, **modules)["cluster"]
    pod = made.options["spec"]["worker"]["spec"]
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert [each["name"] for each in pod["volumes"]] == ["shared"]
    assert made.options["options"]["worker_command"][-2:] == ["--nthreads", "1"]
