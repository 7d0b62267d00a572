"""Writing files so that a reader never sees half of one, nor who may not read it any of it."""

import errno
import os
import secrets
from pathlib import Path

import platformdirs


def write_atomic(path: Path | str, content: str | bytes, *, private: bool = False) -> Path:
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
    private : bool
        Whether nobody else may read it (mode 0600), now or while it is written; by default the
        process's umask decides.

    Returns
    -------
    pathlib.Path
        ``path``.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = beside(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(temporary, flags, 0o600 if private else 0o666)  # less the umask
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def user_cache() -> Path:
    """``COMPANION_CACHE``, or this user's folder for what can be had again."""
    usual = platformdirs.user_cache_dir("abstention-privacy-companion")
    return Path(os.environ.get("COMPANION_CACHE") or usual).expanduser()


def can_write(folder: Path) -> bool:
    """Whether this process may write to a folder, or make it if it is not there."""
    there = next(p for p in (folder, *folder.absolute().parents) if os.path.lexists(p))
    return os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK)


def require_writable(folder: Path, variable: str) -> None:
    """Refuse a folder that cannot be written, and say which environment variable names another."""
    if not can_write(folder):
        said = f"Permission denied; {variable} may name a folder that can be written"
        raise PermissionError(errno.EACCES, said, str(folder))


def kept_folder(root: Path, name: str) -> Path:
    """Where what was computed is kept: ``.cache`` of a checkout, else the user's cache.

    That is the place of a checkout which may not be written, and of packages that are installed.
    """
    own = root / ".cache" / name
    return own if (root / "book").is_dir() and can_write(own) else user_cache() / name


UNFINISHED = r"\.[0-9a-f]{16}"  # how a name ends, after a dot before it, that beside gave


def beside(path: Path) -> Path:
    """A name that nobody has yet, in the same folder, for what is to get the name of `path`."""
    return path.parent / f".{path.name}.{secrets.token_hex(8)}"
