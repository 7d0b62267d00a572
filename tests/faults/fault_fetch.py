"""What forked children download, who know what takes long to load."""

from pathlib import Path

from lib.data import store
from lib.data.registry import Entry


def fetch(name: str, url: str, sha256: str, log: str) -> None:
    """Fetch a file that the registry knows for this process alone; note what was read."""
    entry = Entry(name, url, f"owner/{name}", sha256, 256_000, "none", "none", ("one",))
    store.registry = lambda: {name: entry}
    Path(log).write_bytes(store.fetch(name).read_bytes())
