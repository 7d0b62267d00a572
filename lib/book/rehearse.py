"""``python -m lib.book rehearse --profile gpu``: every parameter file, cut down, on this CPU.

``params/rehearsal.yml`` says what is cut: examples, steps, models, repetitions. Everything else is
as in the profile: architectures at their size, the device with its engines, noise and claims (for
which the CPU stands in), batches in as many pieces as a small memory asks for. Each execution is
killed once at its first checkpoint and resumes. A parameter file that cannot be executed so fails.
Two run side by side, each on its half of the cores; those that took longest begin.
"""

import concurrent.futures
import contextlib
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from lib.book.chapters import (
    chapter_files,
    chapter_of,
    declared_parameters,
    parameter_files,
    profile_parameters,
    read_chapter,
)
from lib.book.execute import BuildError, run_chapter
from lib.book.parameters import ParameterError
from lib.book.records import origin, read_measured, write_measured
from lib.data.untrusted import read_yaml
from lib.runs.provenance import usable_cores

# Large pages, none mapped for an array alone, none given back; other C libraries take no notice.
_KEEPING = ":".join(
    f"glibc.malloc.{each}" for each in ("hugetlb=1", "mmap_max=0", f"trim_threshold={2**35}")
)


@dataclass(frozen=True)
class Rehearsed:
    """One parameter file, executed cut down."""

    name: str  # of the file, without its ending
    seconds: float  # of both executions, the killed and the resumed one
    megabytes: float  # largest memory of all its processes together
    killed: bool  # whether it had checkpoints, so that it was killed at one and resumed
    error: str  # empty if all went well


def cut_parameters(params: Path, profile: str, name: str, declared: Sequence[str]) -> dict:
    """Parameters of a file ``params/<profile>/<name>.yml`` with what a rehearsal cuts.

    ``params/rehearsal.yml`` maps ``all`` and chapters to parameters and values, and ``sets`` to
    data sets of noise that stand in for the real ones.
    """
    chapter, cuts = chapter_of(name), _cuts(params)
    own = {**cuts.get(chapter, {}), **cuts.get(name, {})}
    if unknown := sorted(own.keys() - {*declared}):
        raise ParameterError(
            f"{params / 'rehearsal.yml'} cuts what {chapter} lacks: {', '.join(unknown)}"
        )
    general = {key: value for key, value in cuts.get("all", {}).items() if key in declared}
    return profile_parameters(params, profile, name) | general | own


def _cuts(params: Path) -> dict[str, Any]:
    return read_yaml((params / "rehearsal.yml").read_text(encoding="utf-8"))


def rehearse(book: Path, profile: str, names: Sequence[str] = ()) -> list[Rehearsed]:
    """Execute parameter files of a profile, or those named, cut down; print a line for each."""
    params = book.parent / "params"
    files, cuts = parameter_files(book, profile, names), _cuts(params)
    groups: dict[str, list[str]] = {}  # one after the other, with a store of their own
    for name in files:
        chapter = chapter_of(name)
        groups.setdefault(cuts["with"].get(chapter, chapter), []).append(name)
    found: dict[str, Rehearsed] = {}
    with tempfile.TemporaryDirectory() as folder:
        _make_sets(Path(folder), cuts["sets"])
        if any(profile_parameters(params, profile, f).get("model") == "roberta" for f in files):
            _make_roberta(Path(folder, "sets"))

        def some(group: list[str]) -> None:
            for name in group:
                done = _rehearse_one(book, profile, name, Path(folder, group[0]), cuts)
                how = "killed and resumed" if done.killed else "no checkpoint"
                line = f"{name}: {done.seconds:.0f} s, {done.megabytes:,.0f} MB, {how}"
                print(line if not done.error else f"{name}: FAILED\n{done.error}", flush=True)
                found[name] = done

        parts = _parts_of_cores()
        with concurrent.futures.ThreadPoolExecutor(
            parts.qsize(), initializer=_keep_to, initargs=(parts,)
        ) as pool:
            [*pool.map(some, _longest_first(book, groups.values()))]
    return [found[name] for name in files]


def _longest_first(book: Path, groups: Iterable[list[str]]) -> list[list[str]]:
    """By what the last recorded rehearsal took; a file that it lacks counts as its middle one."""
    record = read_measured(book, "rehearsal", ("files",)) or {"files": []}
    seconds = {each["file"]: each["seconds"] for each in record["files"]}
    usual = statistics.median(seconds.values()) if seconds else 1.0
    return sorted(groups, key=lambda names: -sum(seconds.get(n, usual) for n in names))


def _parts_of_cores() -> queue.SimpleQueue[set[int]]:
    """The cores at hand, dealt out to the files that run side by side; empty sets are all."""
    here = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    parts: queue.SimpleQueue[set[int]] = queue.SimpleQueue()
    for number in range(min(2, usable_cores())):
        parts.put({*here[number::2]})
    return parts


def _keep_to(parts: queue.SimpleQueue[set[int]]) -> None:
    """Have this thread, and all processes that it starts, use one of the parts alone.

    Else each would start a thread a core, and they would wait for each other at every product.
    """
    if cores := parts.get():
        os.sched_setaffinity(0, cores)


def write_rehearsal(book: Path, profile: str, done: Sequence[Rehearsed], seconds: float) -> Path:
    """Keep what all files of a profile took, and all together: ``records/rehearsal.json``."""
    files = [
        {
            "file": each.name,
            "seconds": round(each.seconds, 1),
            "megabytes": round(each.megabytes),
            "killed": each.killed,
        }
        for each in done
    ]
    record = {**origin(book.parent), "profile": profile, "seconds": round(seconds), "files": files}
    return write_measured(book, "rehearsal", record)


def _make_sets(folder: Path, sets: Mapping[str, Sequence[int]]) -> None:
    """Data of noise, in the folder ``sets``."""
    (folder / "sets").mkdir()
    rng = np.random.default_rng(0)
    for name, (train, test, channels, side) in sets.items():
        arrays = {}
        for split, count in (("train", train), ("test", test)):
            shape = (count, side, side, channels)
            arrays[f"x_{split}"] = rng.integers(0, 256, shape, dtype=np.uint8)
            arrays[f"y_{split}"] = np.arange(count) % 10
        np.savez(folder / "sets" / f"{name}.npz", **arrays)


def _make_roberta(folder: Path) -> None:
    """RoBERTa-base at its size in the folder, with random weights.

    A letter is a token, and a text ends after 24 of them.
    """
    import torch

    from lib.training.text import ROBERTA, require_transformers

    require_transformers()
    from tokenizers import Regex
    from tokenizers.normalizers import Replace
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import (
        PreTrainedTokenizerFast,
        RobertaConfig,
        RobertaForSequenceClassification,
        RobertaTokenizerFast,
    )
    from transformers.utils import logging

    logging.disable_progress_bar()
    path = folder / ROBERTA.partition("/")[2]
    config = RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        RobertaForSequenceClassification(config).save_pretrained(path)
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(ByteLevel.alphabet())]
    numbers = {token: number for number, token in enumerate(tokens)}
    tokenizer = RobertaTokenizerFast(vocab=numbers, merges=[]).backend_tokenizer
    tokenizer.normalizer = Replace(Regex("(?<=^.{24}).+"), "")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>").save_pretrained(path)


def _environment(scratch: Path, name: str, cuts: Mapping[str, Any]) -> dict[str, str]:
    """Those data, a store of one's own, a small memory, one accelerator."""
    real = os.environ.get("COMPANION_DATA", "")
    sets = str(scratch.parent / "sets")
    own = {
        "COMPANION_DATA": os.pathsep.join([*filter(None, [real]), sets]),
        "COMPANION_RUNS": str(scratch / "runs"),
        "COMPANION_REHEARSAL": "1",
        "COMPANION_DEVICES": str(zlib.crc32(scratch.name.encode())),  # a pretended one
        "COMPANION_MEMORY": str(cuts["memory"].get(name, cuts["memory"]["all"])),
        "COMPANION_REHEARSAL_TEXTS": str(cuts["texts"]),
    }
    if name in cuts["keeps"]:
        own["GLIBC_TUNABLES"] = _KEEPING
    return os.environ | own


def _rehearse_one(book: Path, profile: str, name: str, scratch: Path, cuts: dict) -> Rehearsed:
    started, most, killed = time.perf_counter(), 0.0, False
    command = [sys.executable, "-m", "lib.book.rehearse", str(book), profile, name]
    states, environment = scratch / "runs" / "partial", _environment(scratch, name, cuts)
    before = {*states.glob("*/*.npz")}  # of files that failed
    for kill in (True, False):
        with tempfile.TemporaryFile("w+") as output:
            often = {"COMPANION_SAVE_EVERY": "0.1"} if kill else {}  # later saves as in earnest
            process = subprocess.Popen(
                command, env=environment | often, stdout=output, stderr=subprocess.STDOUT
            )
            measured = 0.0
            while process.poll() is None:
                if kill and {*states.glob("*/*.npz")} - before:
                    _kill(process)
                    killed = process.returncode == -signal.SIGKILL
                    break
                if time.perf_counter() - measured > 0.5:
                    most, measured = max(most, _megabytes(process)), time.perf_counter()
                time.sleep(0.05)
            output.seek(0)
            text = output.read()
        if not (kill and killed):
            break
    error = "" if process.returncode == 0 else text.strip()
    return Rehearsed(name, time.perf_counter() - started, most, killed, error)


def _family(process: subprocess.Popen) -> list[psutil.Process]:
    """A process and all that it started, as far as they still run."""
    try:
        first = psutil.Process(process.pid)
        return [first, *first.children(recursive=True)]
    except psutil.Error:
        return []


def _megabytes(process: subprocess.Popen) -> float:
    """Memory of a process and all that it started."""
    total = 0
    for each in _family(process):
        with contextlib.suppress(psutil.Error):
            total += each.memory_info().rss
    return total / 1e6


def _kill(process: subprocess.Popen) -> None:
    """``kill -9`` for a process and all that it started."""
    for each in _family(process):
        with contextlib.suppress(psutil.Error):
            each.kill()
    process.wait()


def main(arguments: Sequence[str]) -> int:
    """Execute one parameter file cut down: what is killed."""
    book, profile, name = Path(arguments[0]), arguments[1], arguments[2]
    path = chapter_files(book)[chapter_of(name)]
    declared = declared_parameters(read_chapter(path.read_text(encoding="utf-8")))
    try:
        cut = cut_parameters(book.parent / "params", profile, name, [p.name for p in declared])
        run_chapter(path, profile, cut)
    except (BuildError, ParameterError) as error:
        print(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
