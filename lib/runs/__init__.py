"""What a run leaves behind: provenance, fingerprints, progress."""

from lib.runs.files import write_atomic
from lib.runs.progress import progress
from lib.runs.provenance import (
    MAIN_PACKAGES,
    code_fingerprint,
    fingerprint,
    hardware,
    package_versions,
    python_version,
)

__all__ = [
    "MAIN_PACKAGES",
    "code_fingerprint",
    "fingerprint",
    "hardware",
    "package_versions",
    "progress",
    "python_version",
    "write_atomic",
]
