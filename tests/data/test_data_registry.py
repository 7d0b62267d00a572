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
    *(f"suitability{s}" for s in ("", "_guarantee", "_peers", "_stress", "_time")),
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


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_other_hosts_have_their_own_folder_in_a_mirror(scheme):
    url = f"{scheme}://www.example.org/~who/"
    entry = parse_registry(yaml.safe_dump(document(url=url)))["group/file"]
    assert entry.url == f"{url}folder/file.pkl"
    assert entry.mirror == "www.example.org/~who/folder/file.pkl"


def test_mirror_only_file_has_no_url():
    entry = parse_registry(yaml.safe_dump(document(url=None, mirror="owner/repo/")))["group/file"]
    assert entry.url is None
    assert entry.mirror == "owner/repo/folder/file.pkl"


def test_unknown_content():
    entry = parse_registry(yaml.safe_dump(document(sha256="unknown", size=None)))["group/file"]
    assert entry.sha256 is entry.size is None
    assert entry.mirror == "owner/repo/commit/folder/file.pkl"
    mirrored = document(sha256="unknown", size=None, url=None, mirror="owner/repo/")
    assert parse_registry(yaml.safe_dump(mirrored))["group/file"].sha256 is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"licence": None}, r"groups\[0\]: licence missing"),
        ({"url": None}, r"groups\[0\]: url missing"),
        ({"mirror": "a/"}, r"groups\[0\]: unknown 'url'"),
        ({"size": None}, r"files\[0\]: size missing"),
        ({"checksum": "1"}, r"groups\[0\]: unknown 'checksum'; allowed are chapters,"),
        ({"file_note": "1"}, r"files\[0\]: unknown 'file_note'; allowed are name,"),
        ({"sha256": "0" * 63}, r"sha256: '0+' is not 64"),
        ({"sha256": "G" * 64}, r"sha256: 'G+' is not 64"),
        ({"sha256": 7}, r"sha256: 7 is not 64"),
        ({"sha256": "unknown"}, r"files\[0\]: unknown 'size'"),
        ({"sha256": "UNKNOWN"}, r"sha256: 'UNKNOWN' is not 64"),
        (
            {"sha256": "unknown", "size": None, "url": "http://example.org/"},
            r"sha256: 'http://example.org/' must start with https:// where it is 'unknown'",
        ),
        ({"size": 0}, r"size: 0 is not a positive"),
        ({"size": True}, r"size: True is not a positive"),
        ({"size": "3"}, r"size: '3' is not a positive"),
        ({"chapters": "one"}, r"chapters: 'one' is not a list of names"),
        ({"chapters": [1]}, r"chapters: \[1\] is not a list of names"),
        ({"path": ""}, r"path: '' is not a non-empty string"),
        ({"url": "ftp://example.org/"}, r"url: 'ftp://example.org/' does not start with https"),
        ({"url": "https:///etc/"}, r"url: 'https:///etc/' does not start with https"),
        ({"url": "https://../"}, r"url: 'https://../' does not start with https"),
        ({"path": "../../../../x"}, r"leaves the mirror"),
        ({"files": {}}, r"files: \{\} is not a list"),
    ],
)
def test_refuses_malformed_entries(changes, message):
    with pytest.raises(RegistryError, match=message):
        parse_registry(yaml.safe_dump(document(**changes)))


def test_refuses_a_name_given_twice():
    twice = document()
    twice["groups"].append(document(path="elsewhere.pkl")["groups"][0])
    with pytest.raises(RegistryError, match="'group/file' is registered twice"):
        parse_registry(yaml.safe_dump(twice))


@pytest.mark.parametrize("text", ["", "[]", "groups: []\nmore: 1", "a: [", "groups: 1"])
def test_refuses_other_documents(text):
    with pytest.raises(RegistryError):
        parse_registry(text)


def test_yaml_tags_are_not_executed(tmp_path):
    marker = tmp_path / "marker"
    with pytest.raises(RegistryError, match="not YAML"):
        parse_registry(f"groups: !!python/object/apply:os.mkdir ['{marker}']")
    assert not marker.exists()


def test_our_registry_names_each_place_once():
    entries = registry().values()
    assert len({entry.mirror for entry in entries}) == len(entries)
    assert all(re.fullmatch(r"[\w/]+", entry.name) for entry in entries)


def test_our_registry_pins_commits():
    """Of all that is on GitHub; the image archives and plain arrays are elsewhere."""
    pinned = "[^/]+/[^/]+/[0-9a-f]{40}/"
    elsewhere = {name for name, entry in registry().items() if not re.match(pinned, entry.mirror)}
    files = {file for name in IMAGE_SETS for file in image_files(name)}
    on_github = {f for f in files if f.startswith("fashion_mnist/")}
    plain = {name for name in registry() if name.startswith("arrays/")}
    assert elsewhere == files - on_github | plain
    assert not [name for name in elsewhere - plain if "github" in registry()[name].url]


def test_our_registry_declares_the_suitability_chapter():
    """Exactly the files that it can be told to read by its parameters."""
    from lib.studies.suitability.data import wilds_files

    declared = [name for name, entry in registry().items() if "suitability" in entry.chapters]
    files = wilds_files(DATASETS, [0, 1, 2], ["ERM", "IRM", "groupDRO"])
    assert sorted(declared) == sorted(files)
    assert {chapter for entry in registry().values() for chapter in entry.chapters} == CHAPTERS


def test_only_what_nobody_here_has_had_is_unknown():
    unknown = [name for name, entry in registry().items() if entry.sha256 is None]
    signals = [f"suitability/civilcomments_ERM_{seed}" for seed in range(3)]
    assert unknown == [*signals, "arrays/cifar100"]


def test_only_plain_arrays_lack_an_address():
    assert {n for n, entry in registry().items() if entry.url is None} == {
        name for name in registry() if name.startswith("arrays/")
    }


@pytest.mark.parametrize("arrays", [{}, {"x_train": "0" * 63}, ["x_train"], "0" * 64])
def test_arrays_are_names_with_sums(arrays):
    with pytest.raises(RegistryError, match="is not a mapping of names to SHA-256"):
        parse_registry(
            yaml.safe_dump(document(sha256=None, file_arrays=arrays)).replace(
                "file_arrays", "arrays"
            )
        )
