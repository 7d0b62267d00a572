"""Writing files so that a reader never sees half of one."""

import os
import tempfile
from pathlib import Path


def write_atomic(path: Path | str, content: str | bytes) -> Path:
    """Write a file that appears whole or not at all.

    The content goes to a temporary file in the same folder, is flushed to the disk
    and then renamed, so that neither ``kill -9`` nor a second writer can leave a
    half-written file under ``path``.

    Parameters
    ----------
    path : path-like
        Where the file shall be; missing folders are made.
    content : str or bytes
        Its content; a text is written as UTF-8.

    Returns
    -------
    pathlib.Path
        ``path``.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's files are private
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
