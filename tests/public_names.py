"""What is public: the names that the packages of the reference list."""

import importlib
from typing import Any

#: Page of the reference to the module that it documents.
PACKAGES = {
    name: f"lib.{name}"
    for name in (
        *("selective", "suitability", "audit", "counterfactual", "report", "privacy"),
        *("training", "data", "runs", "plot"),
    )
} | {
    "book": "lib.book.session",
    "white_box": "lib.audit.white_box",
    "forecasts": "lib.counterfactual.forecasts",
}


def public_names(page: str) -> dict[str, Any]:
    """Full name, ``lib.audit.METHODS``, to the object, in the order of ``__all__``."""
    module = importlib.import_module(PACKAGES[page])
    return {f"{PACKAGES[page]}.{name}": getattr(module, name) for name in module.__all__}
