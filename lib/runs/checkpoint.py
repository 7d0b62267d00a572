"""The state of an unfinished run, in one file that is whole or not there."""

import io
import json
import math
import os
import re
import time
import warnings
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.runs.files import UNFINISHED, write_atomic
from lib.runs.plain import decode, encode

SAVE_EVERY = "COMPANION_SAVE_EVERY"
_GENERATORS = ("PCG64", "PCG64DXSM", "Philox", "SFC64")


class Checkpoint:
    """A place for the state of one unfinished run.

    Arrays and state lie in one file, so that they cannot disagree; it is replaced as a whole, so
    that ``kill -9`` at any moment leaves the previous state or the new one.  The state of a
    training is not private in the sense of its guarantee - it may hold seeds and what single
    examples were given - so nobody else can read the file (mode 0600), and who finishes the work
    forgets it (:meth:`done`).

    Parameters
    ----------
    folder : path-like, optional
        Made when first needed.  Without one, nothing is ever saved.
    name : str
        Of the file, without its ending; without the ``@`` that parts of the work have in theirs.
    kept : bool
        Whether the state stays when the work is done, for an owner who removes it: a store, once
        the result is written.
    """

    def __init__(
        self, folder: Path | str | None = None, *, name: str = "checkpoint", kept: bool = False
    ):
        _check_name(name)
        self.path = None if folder is None else Path(folder) / f"{name}.npz"
        self._kept = kept
        self._saved = time.monotonic()

    def part(self, name: str | int) -> "Checkpoint":
        """A place beside this one for a part of the work, such as one of many models."""
        _check_name(str(name))
        one = Checkpoint(kept=self._kept)
        if self.path is not None:
            one.path = self.path.with_name(f"{self.path.stem}{_PART}{name}.npz")
        return one

    @property
    def due(self) -> bool:
        """Whether there is a place, and half a minute or more has passed since the last save.

        The environment variable ``COMPANION_SAVE_EVERY`` is another number of seconds.
        """
        if self.path is None:
            return False
        given = os.environ.get(SAVE_EVERY, "30")
        try:
            seconds = float(given)
        except ValueError:
            seconds = math.nan
        if not seconds >= 0:
            raise ValueError(f"{SAVE_EVERY} must be a number of seconds, got {given!r}")
        return time.monotonic() - self._saved >= seconds

    def save(self, arrays: Mapping[str, npt.NDArray], state: Mapping[str, Any]) -> None:
        """Replace the saved state.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            Of numbers or booleans; no objects.
        state : mapping of str to JSON
            Anything JSON holds, and infinity, NaN and large integers.

        Raises
        ------
        ValueError, TypeError
            On anything else, naming it.
        """
        if self.path is not None:
            text = json.dumps(encode(state, "state"))
            write_atomic(self.path, dump_arrays(arrays, text), private=True)
            self._saved = time.monotonic()

    def load(self) -> tuple[dict[str, npt.NDArray], dict[str, Any]] | None:
        """The saved arrays and state; None, with a warning, if the file is damaged."""
        if self.path is None or not self.path.exists():
            return None
        try:
            arrays, text = load_arrays(self.path)
            return arrays, decode(json.loads(text))
        except PermissionError:
            raise
        except Exception as error:  # whatever a reader of zip files makes of a flipped bit
            where = set_aside(self.path, self.path.parent)
            warnings.warn(
                f"the checkpoint {self.path} is damaged ({error or type(error).__name__});"
                f" moved to {where}, starting anew",
                RuntimeWarning,
                stacklevel=2,
            )
            return None

    def done(self) -> None:
        """The work is done: forget the saved state, unless somebody else will."""
        if not self._kept:
            self.clear()

    def clear(self) -> None:
        """Forget the saved state, that of all parts too, and all that was damaged or unfinished."""
        if self.path is None or not self.path.parent.is_dir():
            return
        whole = rf"{re.escape(self.path.stem)}({_PART}.+)?\.npz"
        own = re.compile(rf"{whole}({DAMAGED})?|\.{whole}{UNFINISHED}", re.DOTALL)
        for path in list(self.path.parent.iterdir()):
            if own.fullmatch(path.name):
                path.unlink(missing_ok=True)


_PART = "@"  # in the names of parts and in no other, lest one work removes what is another's


def _check_name(name: str) -> None:
    if not name or any(sign in name for sign in (_PART, "/", os.sep, "\0")):
        raise ValueError(f"name must be that of a file, without {_PART}, got {name!r}")


_TEXT = "__state__"


def dump_arrays(arrays: Mapping[str, npt.NDArray], text: str = "") -> bytes:
    """Arrays, and a text beside them, as the bytes of an uncompressed npz file."""
    members = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        if array.dtype.hasobject or array.dtype.kind not in "biufc":
            raise ValueError(
                f"arrays[{name!r}] must hold numbers or booleans, got dtype {array.dtype}"
            )
        if not name or name == _TEXT:
            raise ValueError(f"arrays must have other names than {name!r}")
        members[name] = array
    members[_TEXT] = np.frombuffer(text.encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # np.savez takes no array called "file"
        for name, array in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)
    return buffer.getvalue()


def load_arrays(path: Path | str) -> tuple[dict[str, npt.NDArray], str]:
    """What :func:`dump_arrays` wrote; zip checksums are verified and pickles refused."""
    with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
        found = {name: archive[name] for name in archive.files}
    text = found.pop(_TEXT).tobytes().decode()
    return found, text


DAMAGED = r"\.damaged-\d{8}T\d{6}\.\d{6}-\d+"  # how a name ends that set_aside gave


def set_aside(path: Path, folder: Path) -> Path:
    """Move a damaged file or folder out of the way and return its new place."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    target = folder / f"{path.name}.damaged-{stamp}-{os.getpid()}"
    os.replace(path, target)
    return target


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """The state of a NumPy generator in a form that JSON holds."""
    name = type(rng.bit_generator).__name__
    if name not in _GENERATORS:
        raise ValueError(f"rng must use one of {', '.join(_GENERATORS)}, got {name}")
    return json.loads(json.dumps(rng.bit_generator.state, default=np.ndarray.tolist))


def restore_generator(state: Mapping[str, Any]) -> np.random.Generator:
    """The generator whose state :func:`generator_state` gave."""
    name = state.get("bit_generator") if isinstance(state, Mapping) else state
    if name not in _GENERATORS:
        raise ValueError(f"state must be of one of {', '.join(_GENERATORS)}, got {name!r}")
    bits = getattr(np.random, name)()
    bits.state = dict(state)
    return np.random.Generator(bits)
