"""What the tests of reading share: the same rows, in whatever form a file may have them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from lib.report import read_predictions

RNG = np.random.default_rng(21)
N, WORDS = 120, np.array(["cat", "dog", "owl"])
#: Of three classes: what is true, and what a model says of it.
LABELS = RNG.permutation(np.repeat([0, 1, 2], N // 3))
LOGITS = 2.0 * np.eye(3)[LABELS] + RNG.normal(size=(N, 3))
P = special.softmax(LOGITS, axis=1)
SAID, SURE = P.argmax(axis=1), P.max(axis=1)
RIGHT = SAID == LABELS
ORDER = np.argsort(-P, axis=1)
#: Of two classes.
SECOND = RNG.integers(0, 2, N)
ONE = special.expit(3.0 * SECOND - 1.5 + RNG.normal(size=N))
YES = (ONE > 0.5).astype(int)
TWO = YES == SECOND
#: Of fifty, of which a file may have the three surest, the surest last.
FIFTY = special.softmax(4.0 * np.eye(50)[np.arange(N) % 50] + RNG.normal(size=(N, 50)), axis=1)
TOP = np.argsort(FIFTY, axis=1)[:, -3:]
#: Several labels at once; how much speaks for no answer; a few rows.
MANY = (RNG.random((N, 4)) < 0.4).astype(int)
WEIGHT = RNG.uniform(0, 0.5, N)
FEW = np.arange(N) < 20

TRUTH = {"label": WORDS[LABELS]}
NAMED = {f"p_{word}": P[:, j] for j, word in enumerate(WORDS)}
NUMBERED = {f"p_{j}": P[:, j] for j in range(3)}
HARD = TRUTH | {"prediction": WORDS[SAID]}


class File(NamedTuple):
    """A file by its name: text or bytes, arrays by name, one array, or objects."""

    name: str
    content: Any


def of(names, values=P, **more):
    """A frame with a column for each class, and others."""
    return pd.DataFrame(dict(zip(names, np.asarray(values).T, strict=True)) | more)


def lines(rows):
    """A file with an object a line."""
    return File("own.jsonl", "\n".join(map(json.dumps, rows)))


def but(values, cell, rows=FEW):
    """The values, but for one cell in a few rows."""
    found = np.asarray(values).astype(object)
    found[rows] = cell
    return found


def saved(data, folder: Path) -> Path:
    """The path of a file that holds the data; of columns, a CSV file."""
    if isinstance(data, dict):
        data = pd.DataFrame(data)
    if isinstance(data, pd.DataFrame):
        data = File("own.csv", data.to_csv(index=False))
    path, content = folder / data.name, data.content
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, np.ndarray):
        np.save(path, content)
    elif path.suffix == ".npz":
        np.savez(path, **content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def read(data, folder, mapped=None):
    """What is read of a file that holds the data."""
    return read_predictions(saved(data, folder), mapped)


def check(found, want):
    """Whether what was read has these values; arrays alone are of which answers are right."""
    for name, value in (want if isinstance(want, dict) else {"right": want}).items():
        if name == "says":
            assert [text for text in found.reading if value in text], found.reading
            continue
        if name == "right":
            got = found.correct("test")[0]
        elif name == "p":
            got = special.softmax(np.asarray(found.test_logits, dtype=float), axis=1)
        else:
            got = [*found.rivals] if name == "rivals" else getattr(found, name)
        if value is None:
            assert got is None, name
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(got, value, err_msg=name)
