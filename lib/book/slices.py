"""The gpu profile in slices: what each is, what was recorded, what was only rehearsed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lib.book.chapters import chapter_of
from lib.book.records import read_measured, read_records, run_name
from lib.book.render import table_html
from lib.book.words import duration_text
from lib.data.untrusted import read_yaml

FIELDS = ("finished", "commit", "machine", "profile", "seconds", "files")


def read_slices(params: Path) -> dict[str, dict[str, str]]:
    """Slices by name, in their order: ``file`` of the gpu profile, and ``what`` it is."""
    path = params / "slices.yml"
    slices = read_yaml(path.read_text(encoding="utf-8"))
    for name, each in slices.items():
        if not isinstance(each, dict) or {*each} != {"file", "what"}:
            raise ValueError(f"{path}, {name}: must have exactly file and what, got {each!r}")
        if not (params / "gpu" / f"{each['file']}.yml").exists():
            raise ValueError(f"{path}, {name}: there is no params/gpu/{each['file']}.yml")
    return slices


def slices_html(book: Path) -> str:
    """HTML of the slices, and of what was recorded of each."""
    record = read_measured(book, "rehearsal", FIELDS)
    rehearsed = {each["file"] for each in record["files"]} if record else set()
    rows = []
    for name, each in read_slices(book.parent / "params").items():
        file = each["file"]
        run = read_records(book, chapter_of(file)).get(run_name("gpu", file))
        state = "rehearsed, not run" if file in rehearsed else "neither rehearsed nor run"
        if run is not None:
            hardware = run["hardware"]
            device = hardware.get("accelerator") or hardware.get("processor", "")
            state = f"{run['finished'][:10]}, {duration_text(run['seconds'])} on {device}"
        rows.append({"slice": name, "what": each["what"], "recorded": state})
    return table_html(pd.DataFrame(rows), "Slices, in the order in which they are run")


def rehearsal_html(record: Mapping[str, Any]) -> str:
    """HTML of what the last rehearsal took."""
    table = pd.DataFrame(
        {
            "parameter file": each["file"],
            "seconds": each["seconds"],
            "memory (MB)": each["megabytes"],
            "killed and resumed": "yes" if each["killed"] else "no checkpoint",
        }
        for each in record["files"]
    )
    caption = (
        f"Rehearsal of the {record['profile']} profile on {record['finished'][:10]}, commit "
        f"{record['commit'][:9]}: {duration_text(record['seconds'])} in all, two files side by side"
    )
    return table_html(table, caption, {"seconds": ".0f", "memory (MB)": ",.0f"})
