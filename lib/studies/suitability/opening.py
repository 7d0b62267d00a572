"""How a page on suitability begins: which data are here, and what readers are told of them."""

from collections.abc import Sequence

from lib import data
from lib.studies.suitability.data import wilds_files

#: What readers call the data.
TITLES = {
    "fmow": "FMoW-WILDS",
    "rxrx1": "RxRx1-WILDS",
    "civilcomments": "CivilComments-WILDS",
    "digits": "digits",
}


def find_data(
    datasets: Sequence[str], seeds: Sequence[int], algorithms: Sequence[str] = ()
) -> tuple[str, list[str], list[str]]:
    """The main data set, those of WILDS that are here, and what to tell the reader about them.

    CivilComments has no shifted data and is never the main one; digits stand in where none is here.
    """
    files = {d: wilds_files([d], seeds, ["ERM", *algorithms]) for d in datasets}
    absent = {d: [f for f in files[d] if not data.available(f)] for d in datasets}
    here = [d for d in datasets if not absent[d]]
    main = next((d for d in here if d != "civilcomments"), "digits")
    if main != "digits":
        notes = [
            f"Data: the signals of {' and '.join(TITLES[d] for d in here)} that the authors "
            "publish, fetched and checked against their SHA-256. No image is needed: the filter "
            "sees nothing but the model's outputs."
        ]
    else:
        missing, here = absent[datasets[0]], []
        notes = [
            f"Data: {len(missing)} of the authors' files, such as {missing[0]}, cannot be had on "
            "this machine. The same code runs on scikit-learn's digits instead: a small linear "
            "classifier, ID user folds by digit, OOD user folds rotated, noisy and blurred. Claims "
            "about FMoW and RxRx1 are therefore not checked in this build. The README says how to "
            "get the data."
        ]
    if "civilcomments" not in here:
        notes.append(
            "CivilComments-WILDS is missing in all tables: its signals are public, but nobody here "
            "has had the files, so their SHA-256 is unknown and a build never fetches them. With a "
            "network `python -m lib.data fetch --unverified suitability/civilcomments_ERM_0` (and "
            "1, 2) shows and notes what it finds, then add `civilcomments` to `datasets`."
        )
    return main, here, notes
