import re

import pytest
import yaml

from lib.data.errors import RegistryError
from lib.data.images import IMAGE_SETS, image_files
from lib.data.registry import parse_registry, registry
from lib.data.suitability import DATASETS

CHAPTERS = {
    "canaries",
    "gap",
    "refusals",
    *(f"suitability{s}" for s in ("", "_guarantee", "_peers", "_time")),
}


def document(**changes):
    """A well-formed registry with one file; a change to None removes the key."""
    file = {"name": "file", "path": "folder/file.pkl", "sha256": "0" * 64, "size": 3}
    group = {
        "prefix": "group/",
        "url": "https://raw.githubusercontent.com/owner/repo/commit/",
        "licence": "MIT",
        "citation": "somebody",
        "chapters": ["one"],
        "files": [file],
    }
    for key, value in changes.items():
        place = file if key in file or key.startswith("file_") else group
        if value is None:
            del place[key]
        else:
            place[key] = value
    return {"groups": [group]}


def test_reads_a_file_with_its_group():
    entry = parse_registry(yaml.safe_dump(document()))["group/file"]
    assert entry.url == "https://raw.githubusercontent.com/owner/repo/commit/folder/file.pkl"
    assert entry.mirror == "owner/repo/commit/folder/file.pkl"
    assert (entry.licence, entry.citation) == ("MIT", "somebody")
    assert (entry.size, entry.chapters) == (3, ("one",))


@pytest.mark.parametrize(
    ("changes", "mirror"),
    [
        ({"url": "http://www.example.org/~who/"}, "www.example.org/~who/folder/file.pkl"),
        ({"url": None, "mirror": "owner/repo/"}, "owner/repo/folder/file.pkl"),
        ({"sha256": "unknown", "size": None}, "owner/repo/commit/folder/file.pkl"),
    ],
)
def test_other_hosts_no_address_and_unknown_content(changes, mirror):
    entry = parse_registry(yaml.safe_dump(document(**changes)))["group/file"]
    assert entry.mirror == mirror
    assert (entry.url is None) == ("mirror" in changes)
    assert (entry.sha256 is None, entry.size is None) == ("sha256" in changes,) * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"licence": None}, "licence"),
        ({"url": None}, "url"),
        ({"mirror": "a/"}, "url"),
        ({"size": None}, "size"),
        ({"checksum": "1"}, "checksum"),
        ({"file_note": "1"}, "file_note"),
        *(({"sha256": wrong}, "sha256") for wrong in ("0" * 63, "G" * 64, 7, "UNKNOWN")),
        ({"sha256": "unknown"}, "size"),
        ({"sha256": "unknown", "size": None, "url": "http://example.org/"}, "https"),
        *(({"size": wrong}, "size") for wrong in (0, True, "3")),
        ({"chapters": "one"}, "chapters"),
        ({"chapters": [1]}, "chapters"),
        ({"path": ""}, "path"),
        *(({"url": wrong}, "url") for wrong in ("ftp://a.b/", "https:///etc/", "https://../")),
        ({"path": "../../../../x"}, "leaves the mirror"),
        ({"files": {}}, "files"),
    ],
)
def test_refuses_malformed_entries(changes, message):
    with pytest.raises(RegistryError, match=message):
        parse_registry(yaml.safe_dump(document(**changes)))


TWICE = document()
TWICE["groups"] += document(path="elsewhere.pkl")["groups"]
OTHER = ["", "[]", "groups: []\nmore: 1", "a: [", "groups: 1", "groups: !!python/name:os.mkdir ''"]


@pytest.mark.parametrize(
    "text",
    [
        *OTHER,
        yaml.safe_dump(TWICE),
        *(
            yaml.safe_dump(document(sha256=None, file_arrays=a)).replace("file_arrays", "arrays")
            for a in ({}, {"x_train": "0" * 63}, ["x_train"], "0" * 64)
        ),
    ],
)
def test_refuses_other_documents(text):
    with pytest.raises(RegistryError):
        parse_registry(text)


def test_our_registry_pins_commits():
    """Of all that is on GitHub; the image archives and plain arrays are elsewhere."""
    pinned = "[^/]+/[^/]+/[0-9a-f]{40}/"
    elsewhere = {name for name, entry in registry().items() if not re.match(pinned, entry.mirror)}
    files = {file for name in IMAGE_SETS for file in image_files(name)}
    on_github = {f for f in files if f.startswith("fashion_mnist/")}
    plain = {name for name in registry() if name.startswith("arrays/")}
    assert elsewhere == files - on_github | plain
    assert not [name for name in elsewhere - plain if "github" in registry()[name].url]
    assert {n for n, entry in registry().items() if entry.url is None} == plain
    assert len({entry.mirror for entry in registry().values()}) == len(registry())
    unknown = [name for name, entry in registry().items() if entry.sha256 is None]
    signals = [f"suitability/civilcomments_ERM_{seed}" for seed in range(3)]
    assert unknown == [*signals, "arrays/cifar100"]


def test_our_registry_declares_the_suitability_chapter():
    """Exactly the files that it can be told to read by its parameters."""
    from lib.studies.suitability.data import wilds_files

    declared = [name for name, entry in registry().items() if "suitability" in entry.chapters]
    files = wilds_files(DATASETS, [0, 1, 2], ["ERM", "IRM", "groupDRO"])
    assert sorted(declared) == sorted(files)
    assert {chapter for entry in registry().values() for chapter in entry.chapters} == CHAPTERS
