"""Files that are not read, each with what would do."""

from pathlib import Path

from lib.data.untrusted import short
from lib.report.packed import PACKED

_PANDAS = (
    "a program could hide in it, so that it is not read; if you trust it, convert it: python -c "
    "\"import pandas; pandas.read_pickle('{file}').to_csv('{csv}', index=False)\""
)
_TENSORS = (
    "a program could hide in it, so that it is not read; save arrays instead: "
    "numpy.savez('my.npz', logits=logits.numpy(), labels=labels.numpy())"
)
_EXCEL = (
    "save the sheet as CSV: python -c \"import pandas; pandas.read_excel('{file}').to_csv('{csv}', "
    'index=False)"'
)
UNPACK = "unpack it first"
_READ = "python -c \"import pandas; pandas.{call}('{{file}}').to_csv('{{csv}}', index=False)\""
_STATISTICS = {
    ".dta": "read_stata",
    ".sav": "read_spss",
    ".sas7bdat": "read_sas",
    ".orc": "read_orc",
    ".h5": "read_hdf",
    ".hdf5": "read_hdf",
}
_OTHERS = {
    ".arff": "from Python: keep what follows @data, below a line with the attributes' names",
    ".mat": "scipy.io.loadmat('{file}') has its arrays: save them by numpy.savez",
    ".rds": "from R: write.csv(readRDS('{file}'), '{csv}', row.names = FALSE)",
    ".rdata": "from R: write.csv(frame, '{csv}', row.names = FALSE)",
    ".safetensors": "numpy.savez('my.npz', **safetensors.numpy.load_file('{file}'))",
}
#: Endings of files that are not read, and what would do.
REFUSED = {
    **dict.fromkeys([".pkl", ".pickle", ".joblib"], _PANDAS),
    **dict.fromkeys([".pt", ".pth", ".ckpt"], _TENSORS),
    **dict.fromkeys([".xlsx", ".xls"], _EXCEL),
    **{
        ending: f"save it as CSV: {_READ.format(call=call)}" for ending, call in _STATISTICS.items()
    },
    **{ending: f"save it in another format: {how}" for ending, how in _OTHERS.items()},
    **dict.fromkeys([*PACKED, ".zst", ".7z", ".tar", ".tgz"], UNPACK),
}
_SCORES_BY_CLASS = {"precision", "recall", "f1-score"}


def refuse_other_text(path: Path, line: str) -> None:
    """Raise a ValueError if the first line of a table is of something else, which it names."""
    begin, words = line.lstrip().lower(), {*line.split()}
    told = ""
    if begin.startswith(("{", "[{")) and begin[1:].lstrip("{ ").startswith(('"', "'")):
        told = "it begins as JSON does: call it .json, or .jsonl with one object a line"
    elif begin.startswith(("<!doctype", "<html", "<table", "<?xml")):
        told = "it is a page of HTML or XML: from pandas: read_html, then to_csv"
    elif begin.startswith("version https://git-lfs"):
        told = "it is a pointer of Git LFS and not the file: git lfs pull"
    elif begin.startswith("@relation"):
        told = f"it is ARFF: {_OTHERS['.arff'].partition(': ')[2]}"
    elif words >= _SCORES_BY_CLASS:
        told = "it holds scores of classes; a report needs a row for each prediction"
    if told:
        raise ValueError(f"{path}: must be a table with a header, got {short(repr(line))}: {told}")
