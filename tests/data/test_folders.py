import io
import os
import stat
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image
from published import encoded, pixels, tar, zipped

from lib.data.folders import load_folder

PICTURES = {
    "dog/b.png": pixels(4, 6, 3),
    "dog/a.bmp": 255 - pixels(4, 6, 3),
    "cat/x.png": pixels(4, 6, 3)[::-1],
}
FILES = {name: encoded(array, name[-3:].upper()) for name, array in PICTURES.items()}
EXPECTED = np.stack([PICTURES[name] for name in ("cat/x.png", "dog/a.bmp", "dog/b.png")])


def lay(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def build(folder, kind, files):
    """The files as a directory or an archive, in an order that is not theirs."""
    if kind == "directory":
        (folder / "photos").mkdir()
        return lay(folder / "photos", files)
    members = list(files.items())[::-1]
    content = {
        "tar": lambda: tar(members, "w:"),
        "tar.gz": lambda: tar(members),
        "tgz": lambda: tar(members),
        "zip": lambda: zipped(members),
    }[kind]()
    path = folder / f"photos.{kind}"
    path.write_bytes(content)
    return path


KINDS = ["directory", "tar", "tar.gz", "tgz", "zip"]
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_classes_are_sorted_folders(tmp_path, kind):
    made = load_folder(build(tmp_path, kind, FILES), (4, 6))
    assert (made.name, made.names) == ("photos", ("cat", "dog"))
    np.testing.assert_array_equal(made.labels, [0, 1, 1])
    np.testing.assert_array_equal(made.images, EXPECTED)
    assert not made.images.flags.writeable


@every_kind
def test_what_lies_beside_the_images_is_ignored(tmp_path, kind):
    beside = {
        "README.txt": b"about",
        ".git/config": b"hidden",
        "cat/.DS_Store": b"hidden",
        "__MACOSX/cat/._x.png": b"hidden",
    }
    if kind == "directory":
        del beside["__MACOSX/cat/._x.png"]
    made = load_folder(build(tmp_path, kind, beside | FILES), (4, 6), name="mine")
    np.testing.assert_array_equal(made.images, EXPECTED)
    assert made.name == "mine"


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("prefix", ["./", "photos/", "./photos/"])
def test_archive_with_one_folder_around_the_classes(tmp_path, kind, prefix):
    files = {prefix + name: content for name, content in FILES.items()}
    made = load_folder(build(tmp_path, kind, files | {f"{prefix}README": b"about"}), (4, 6))
    assert made.names == ("cat", "dog")
    np.testing.assert_array_equal(made.images, EXPECTED)


def test_size_is_height_by_width_and_bilinear(tmp_path):
    path = build(tmp_path, "directory", FILES)
    made = load_folder(path, (3, 8))
    assert made.images.shape == (3, 3, 8, 3)
    expected = Image.fromarray(EXPECTED[0]).resize((8, 3), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(made.images[0], np.asarray(expected))
    grey = load_folder(path, (4, 6), channels=1)
    assert grey.images.shape == (3, 4, 6, 1)
    expected = np.asarray(Image.fromarray(EXPECTED[2]).convert("L"))
    np.testing.assert_array_equal(grey.images[2, ..., 0], expected)


def test_modes_of_images(tmp_path):
    grey, colour = pixels(4, 6), pixels(4, 6, 3)
    clear = np.dstack([colour, np.zeros((4, 6), dtype=np.uint8)])
    palette = io.BytesIO()
    Image.fromarray(colour).quantize(8).save(palette, "PNG", transparency=bytes(range(8)))
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    files = {
        "a/1.png": encoded(grey, "PNG"),
        "a/2.png": encoded(clear, "PNG"),
        "a/3.png": encoded(colour[::-1, ::-1], "PNG", exif=exif),
        "a/4.png": palette.getvalue(),
        "b/1.png": encoded(colour, "PNG"),
    }
    made = load_folder(build(tmp_path, "tar", files), (4, 6))
    np.testing.assert_array_equal(made.images[0], np.dstack([grey] * 3))
    for row in (1, 2, 4):
        np.testing.assert_array_equal(made.images[row], colour)


DEEP = np.zeros((4, 6), dtype=np.uint16)
PNG = FILES["dog/b.png"]
HUGE = bytearray(PNG)
HUGE[16:24] = b"\x00\x00\x30\x00" * 2  # 12,288 x 12,288: more than Pillow's limit for a warning
HUGE[29:33] = zlib.crc32(HUGE[12:29]).to_bytes(4, "big")


@every_kind
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"README": b"about"}, "two or more classes, found no class"),
        ({"cat/x.png": PNG}, "two or more classes, found the one class 'cat'"),
        ({"x.png": PNG, "y.png": PNG}, "two or more classes, found no class"),
        (FILES | {"dog/notes.txt": b"text"}, "dog/notes.txt: expected an image .*, found 4 bytes"),
        (FILES | {"dog/c.png": PNG[:-30]}, "dog/c.png: expected an image .*, found damage"),
        (FILES | {"dog/c.png": b""}, "dog/c.png: expected an image .*, found 0 bytes"),
        (FILES | {"dog/c.png": bytes(HUGE)}, "dog/c.png: expected .*, found damage: Image size"),
        (FILES | {"dog/c.png": encoded(DEEP, "PNG")}, "dog/c.png: expected 8 bits .* mode I;16"),
        (FILES | {"dog/big/c.png": PNG}, "expected <class>/<image>, found dog/big/c.png"),
    ],
)
def test_one_clear_error(tmp_path, kind, files, message):
    path = build(tmp_path, kind, files)
    with pytest.raises(ValueError, match=message) as caught:
        load_folder(path, (4, 6))
    assert str(caught.value).startswith(f"{path}: ")


def test_empty_class(tmp_path):
    root = build(tmp_path, "directory", FILES | {"ape/.hidden": b""})
    archive = tmp_path / "x.tar"
    archive.write_bytes(tar([("ape/", (tarfile.DIRTYPE, "")), *FILES.items()]))
    zip_file = tmp_path / "x.zip"
    zip_file.write_bytes(zipped([("ape/", b""), *FILES.items()]))
    for path in (root, archive, zip_file):
        with pytest.raises(ValueError, match="images in every class, found none in 'ape'"):
            load_folder(path, (4, 6))


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_name_given_twice(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    members = [*FILES.items(), ("./cat/x.png", PNG)]
    path.write_bytes(
        zipped(members) if kind == "zip" else tar(members, "w:" if kind == "tar" else "w:gz")
    )
    with pytest.raises(ValueError, match=r"expected cat/x.png once, found it twice"):
        load_folder(path, (4, 6))


# --- links and odd names ------------------------------------------------------------------------


def test_links_in_a_directory_are_not_followed(tmp_path):
    root = build(tmp_path, "directory", FILES)
    outside = lay(tmp_path / "outside", {"secret.png": PNG})
    (root / "ape").symlink_to(outside)
    (root / "cat" / "y.png").symlink_to(outside / "secret.png")
    (root / "cat" / "z.png").symlink_to(tmp_path / "nowhere")
    os.mkfifo(root / "cat" / "pipe")
    with pytest.warns(UserWarning, match=r"photos: 4 entries are not followed .* 'ape'"):
        made = load_folder(root, (4, 6))
    np.testing.assert_array_equal(made.images, EXPECTED)
    link = tmp_path / "link"
    link.symlink_to(root)  # which the user named
    with pytest.warns(UserWarning, match="4 entries"):
        assert load_folder(link, (4, 6)).name == "photos"


ODD = ["../ape/x.png", "/ape/x.png", "ape/../../x.png", "ape//x.png", "c:/ape/x.png", "a\\b/x.png",
       "ape/./x.png", "ape\n/x.png", "..", "cat/.."]  # fmt: skip


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_odd_names_in_an_archive_are_not_followed(tmp_path, kind):
    path = build(tmp_path, kind, dict.fromkeys(ODD, PNG) | FILES)
    message = rf"photos.{kind}: {len(ODD)} entries are not followed"
    with pytest.warns(UserWarning, match=message):
        made = load_folder(path, (4, 6))
    assert made.names == ("cat", "dog")
    np.testing.assert_array_equal(made.images, EXPECTED)
    assert list(tmp_path.iterdir()) == [path]


def test_links_in_an_archive_are_not_followed(tmp_path):
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)
    links = [(f"cat/{number}.png", (kind, "x.png")) for number, kind in enumerate(kinds)]
    path = tmp_path / "x.tar"
    path.write_bytes(tar([*FILES.items(), *links]))
    with pytest.warns(UserWarning, match="x.tar: 4 entries are not followed .* 'cat/0.png'"):
        np.testing.assert_array_equal(load_folder(path, (4, 6)).images, EXPECTED)

    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
        link = zipfile.ZipInfo("cat/link.png")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.warns(UserWarning, match="x.zip: 1 entries are not followed"):
        np.testing.assert_array_equal(load_folder(path, (4, 6)).images, EXPECTED)


# --- arguments and damage -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS[1:])
def test_damaged_archive(tmp_path, kind):
    path = build(tmp_path, kind, FILES)
    good = path.read_bytes()
    for bad in (b"", b"no archive" * 100, good[:200]):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match="expected") as caught:
            load_folder(path, (4, 6))
        assert str(caught.value).startswith(f"{path}: ")


def test_damaged_member_of_a_zip(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:  # stored, so that only the checksum tells
        for name, content in FILES.items():
            archive.writestr(name, content)
    content = bytearray(path.read_bytes())
    content[content.index(PNG) + 50] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x.zip: expected the member 'dog/b.png', found damage"):
        load_folder(path, (4, 6))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 32}, r"size must be two positive ints \(height, width\), got 32"),
        ({"size": (4,)}, "got .4,."),
        ({"size": (4, 0)}, "got .4, 0."),
        ({"size": (4, True)}, "got .4, True."),
        ({"size": (4, 6.0)}, "got .4, 6.0."),
        ({"channels": 4}, "channels must be 1 or 3, got 4"),
        ({"channels": True}, "channels must be 1 or 3, got True"),
        ({"name": ""}, "name must be a non-empty string, got ''"),
    ],
)
def test_bad_arguments(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        load_folder(build(tmp_path, "directory", FILES), **{"size": (4, 6)} | arguments)


def test_other_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no directory or file at .*nowhere.zip"):
        load_folder(tmp_path / "nowhere.zip", (4, 6))
    other = tmp_path / "x.rar"
    other.write_bytes(b"")
    with pytest.raises(ValueError, match=r"path must be a directory or one of .tar, .*, got .*rar"):
        load_folder(other, (4, 6))
