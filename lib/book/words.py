"""Numbers and scales as a reader wants them: few digits, units, and words for parameters."""

import ast
import math
import re
from typing import Any

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_text(value: float | None, unit: str = "") -> str:
    """Return a number with three significant digits and its unit: "ε = 3.12", "1,470 trials"."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        text = "∞" if value > 0 else "-∞" if value < 0 else "–"
    elif value and not 1e-4 <= abs(value) < 1e6:
        digits, power = f"{value:.2e}".split("e")
        text = with_power(digits.rstrip("0").rstrip("."), power)
    elif abs(value) >= 999.5:
        text = f"{float(f'{value:.2e}'):,.0f}"
    else:
        text = f"{value:.3g}"
    return f"ε = {text}" if unit == "epsilon" else f"{text} {unit}" if unit else text


def with_power(digits: str, power: str) -> str:
    """Digits times a power of ten."""
    raised = str(int(power)).translate(_SUPERSCRIPTS)
    return f"{digits}\u00a0×\u00a010{raised}"


_POWER = re.compile(r"\b(\d+(?:\.\d+)?)e([+-]\d+)\b")


def formatted(value: float | str, spec: str = "") -> str:
    """Format a number for readers: powers of ten, an infinity sign, and no minus before zero."""
    if spec == "duration":
        return duration_text(float(value))
    if spec.endswith("%") and value in (0, 1):
        spec = "+.0%" if value and spec[0] == "+" else ".0%"  # nothing was rounded
    text = format(value, spec)
    if isinstance(value, str):
        return text
    if not any(digit in text for digit in "123456789"):
        text = text.removeprefix("-") if "0" in text else text.replace("inf", "∞")
        return "0" if "e" in text else text
    return powers(text)


def duration_text(seconds: float) -> str:
    """Return a duration in the unit that people would use: "12 s", "37 min", "2.3 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def powers(text: str) -> str:
    """A text with powers of ten in the place of a programmer's exponents."""
    return _POWER.sub(_powered, text)


def _powered(found: re.Match[str]) -> str:
    text = with_power(*found.groups())
    return text.removeprefix("1\u00a0×\u00a0") if found[1] == "1" else text


#: How a reader knows data sets and models: one of them, and several.
_KNOWN = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "fashion-mnist": "Fashion-MNIST",
    "svhn": "SVHN",
    "gtsrb": "GTSRB",
    "gtsrb32": "a third of GTSRB",
    "sst2": "SST-2",
    "fmow": "FMoW",
    "rxrx1": "RxRx1",
    "breast_cancer": "breast cancer",
    "gaussian_noise": "Gaussian noise",
    "own": "data of your own",
    "linear": "a linear model",
    "mlp": "an MLP",
    "small_cnn": "a small CNN",
    "medium_cnn": "a larger CNN",
    "cnn": "a CNN",
    "p3_cnn": "P3's CNN",
    "resnet18": "a ResNet-18",
    "wide_resnet": "a wide ResNet",
    "wide-resnet18": "a wide ResNet-18",
    "vgg16": "VGG-16",
    "roberta": "RoBERTa",
    "forest": "random forests",
    "super": "super learners",
}
_NAMES = re.compile("|".join(sorted((n for n in _KNOWN if not n.isalpha()), key=len)[::-1]))
_MODELS, _DATA = ("models", "model", "pate_model"), ("dataset", "datasets", "images")
#: What is counted, by the parameter that is the number or the list of them.
COUNTS = {name: name for name in ("epochs", "points", "canaries", "draws", "members")} | {
    "n_seeds": "seeds",
    "n_folds": "folds",
    "n_shadow": "shadow models",
    "n_target": "target models",
    "n_audits": "audits",
    "image_points": "images",
    "full_splits": "splits",
    "calibration_rows": "rows to calibrate with",
    "model_seeds": "models",
    "signal_seeds": "models for single signals",
    "choice_partitions": "partitions",
    "epsilons": "values of epsilon",
    "user_sizes": "sample sizes",
    "power_sizes": "sample sizes",
    "power_shifts": "shifts",
    "linear_repetitions": "repetitions with linear learners",
    "forest_repetitions": "repetitions with random forests",
    "super_repetitions": "repetitions with super learners",
    "independent_repetitions": "repetitions with fresh samples",
    "positivity_repetitions": "repetitions for positivity",
    "power_repetitions": "repetitions for the power",
}
#: What is set, by the parameter.
SETTINGS = {
    "margin": "margin",
    "alpha": "level",
    "cheat_margin": "margin of the cheats",
    "batch_size": "batch size",
    "clipping_norm": "clipping norm",
    "outlier_clipping_norm": "clipping norm",
    "momentum": "momentum",
    "checkpoint_every": "batches between checkpoints:",
    "power_learner": "learners for the power:",
    "positivity_learner": "learners for positivity:",
}
NAMED = {*_MODELS, *_DATA, *COUNTS, *SETTINGS}

_VALUE = r"(\[[^\]]*\]|'[^']*'|[^,\s]+)"
_DIFFERS = re.compile(rf"(\w+)(?: = {_VALUE}| \(not recorded\)) instead of {_VALUE}(?:, )?")


def name_text(name: str) -> str:
    """Name of a data set or model as readers know it; any other as it is."""
    return _KNOWN.get(name, name)


def data_name(text: str) -> str:
    """A name of a data set as readers know it; any other text, a model's too, as it is."""
    known = _KNOWN.get(text, text)
    return known if known[:1].isupper() or (not text.isalpha() and known[:2] != "a ") else text


#: Letters that captions, which know no formulas, have as such.
_GREEK = {"epsilon": "ε", "delta": "δ", "alpha": "α", "mu": "μ"}


def caption_text(text: str) -> str:
    """A caption as readers want it: known names of data sets and models, powers of ten."""
    text = re.sub(r"\$\\(\w+)\$", lambda found: _GREEK.get(found[1], found[0]), text)
    text = re.sub(r"\((mlp|linear|cnn)\)", lambda found: f"({_KNOWN[found[1]]})", text)
    text = re.sub(rf"(?<![\w-])(?:{_NAMES.pattern})(?![\w-])", lambda f: _KNOWN[f[0]], text)
    return powers(text)


def scale_text(reason: str) -> str:
    """Say in words what a verdict's reason says in parameters; other parts stay as they are."""
    here: dict[str, Any] = {}
    full: dict[str, Any] = {}

    def take(found: re.Match[str]) -> str:
        name, ours, papers = found.groups()
        if name not in NAMED:
            return found[0]
        here[name] = None if ours is None else ast.literal_eval(ours)
        full[name] = ast.literal_eval(papers)
        return ""

    rest = _NAMES.sub(lambda found: _KNOWN[found[0]], _DIFFERS.sub(take, reason))
    said = [_what(here, full)] if {*_MODELS, *_DATA} & set(here) else []
    said += [_difference(n, here[n], full[n]) for n in here if n in COUNTS or n in SETTINGS]
    return ", ".join([*said, *[rest.removesuffix(", ")] * bool(rest)])


def _what(here: dict[str, Any], full: dict[str, Any]) -> str:
    """What was trained on what, instead of what: "an MLP on digits instead of ..."."""
    sides = []
    for values in (here, full):
        words = [
            " and ".join(_named(values[n]) for n in names if n in values)
            for names in (_MODELS, _DATA)
        ]
        sides.append(" on ".join(word for word in words if word))
    return " instead of ".join(sides)


def _named(value: Any) -> str:
    each = value if isinstance(value, list) else [value]
    words = ["what was not recorded" if v is None else _KNOWN.get(v, str(v)) for v in each]
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} or {words[-1]}"


def _difference(name: str, ours: Any, papers: Any) -> str:
    if name in SETTINGS:
        return f"{SETTINGS[name]} {_plain(ours)} instead of {_plain(papers)}"
    noun = COUNTS[name]
    if isinstance(papers, list):
        if isinstance(ours, list) and len(ours) == len(papers):
            return f"other {noun}"
        ours, papers = ours and len(ours), len(papers)
    if name == "epochs" and ours == 0:
        return f"a fixed number of steps instead of {papers:,} {noun}"
    return f"{_plain(ours)} instead of {_plain(papers)} {noun}"


def _plain(value: Any) -> str:
    if value is None:
        return "an unknown number"
    if isinstance(value, int):
        return f"{value:,}"
    return name_text(value) if isinstance(value, str) else number_text(value)
