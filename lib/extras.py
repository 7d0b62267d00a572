"""The extra that trains models: what needs it imports this first, which says if it is lacking."""

from importlib.util import find_spec

#: What ``pip install '.[training]'`` brings.
TRAINING = ("torch", "opacus")


def _lacking(name: str) -> bool:
    try:
        return find_spec(name) is None
    except ModuleNotFoundError:
        return True


if _missing := [name for name in TRAINING if _lacking(name)]:
    raise ModuleNotFoundError(
        f"{' and '.join(_missing)} must be installed to train models, which reports and formulas "
        "do without: pip install '.[training]' in a clone of the repository",
        name=_missing[0],
    )
