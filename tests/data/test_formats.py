import gzip
import tarfile
import zlib

import numpy as np
import pytest
from PIL import Image
from published import (
    CIFAR10_NAMES,
    cifar10,
    cifar100,
    encoded,
    gtsrb_csv,
    gtsrb_training,
    idx,
    mat,
    pixels,
    tar,
    zipped,
)

from lib.data.formats import (
    decode_image,
    read_cifar10,
    read_cifar100,
    read_fashion_mnist,
    read_gtsrb_test,
    read_gtsrb_training,
    read_svhn,
    walk_tar,
)


@pytest.fixture
def put(tmp_path):
    def write(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def check(parsed, images, labels, names):
    np.testing.assert_array_equal(parsed[0], images)
    np.testing.assert_array_equal(parsed[1], labels)
    assert (parsed[0].dtype, parsed[1].dtype) == (np.uint8, np.int64)
    assert parsed[2] == tuple(names)


DIGITS = np.arange(10, dtype=np.uint8)


def test_fashion_mnist(put):
    images = pixels(10, 28, 28)
    parsed = read_fashion_mnist(put(idx(images), "images"), put(idx(DIGITS), "labels"))
    check(parsed, images[..., np.newaxis], DIGITS, parsed[2])
    assert (len(parsed[2]), parsed[2][0], parsed[2][9]) == (10, "T-shirt/top", "Ankle boot")


IMAGES = pixels(12, 32, 32, 3)
LABELS = np.array([3, 9, 0, 1, 2, 4, 5, 6, 7, 8, 9, 0], dtype=np.uint8)
FINE = np.arange(99, 87, -1)
COARSE = np.arange(19, 7, -1)


def test_cifar10(put):
    for order in (list, reversed):  # of the archive's members
        path = put(tar(order(cifar10(IMAGES, LABELS).items())))
        check(read_cifar10(path, "train"), IMAGES[:10], LABELS[:10], CIFAR10_NAMES)
        check(read_cifar10(path, "test"), IMAGES[10:], LABELS[10:], CIFAR10_NAMES)


def test_cifar100(put):
    path = put(tar(cifar100(IMAGES, COARSE, FINE).items()))
    fine = [f"f{number}" for number in range(100)]
    check(read_cifar100(path, "train"), IMAGES[:6], FINE[:6], fine)
    check(read_cifar100(path, "test"), IMAGES[6:], FINE[6:], fine)


def test_other_members_are_not_touched(put, tmp_path):
    odd = [
        ("../cifar-10-batches-bin/test_batch.bin", b"outside"),
        ("/cifar-10-batches-bin/test_batch.bin", b"absolute"),
        ("test_batch.bin", b"elsewhere"),
        ("cifar-10-batches-bin/readme.html", b"more"),
        ("cifar-10-batches-bin/test_batch.bin", (tarfile.SYMTYPE, "../../secret")),
        ("cifar-10-batches-bin/test_batch.bin", (tarfile.LNKTYPE, "test_batch.bin")),
    ]
    path = put(tar([*odd, *cifar10(IMAGES, LABELS).items()]))
    check(read_cifar10(path, "test"), IMAGES[10:], LABELS[10:], CIFAR10_NAMES)
    assert list(tmp_path.iterdir()) == [path]


ARCHIVE = tar([("a", b"x" * 700), ("b", b"y" * 10)], "w:")  # a at 0, b at 1536, the end at 2560
A_LENGTH = 512 + 1024


def content(path):
    return {member.name: read() for member, read in walk_tar(path)}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_walk(put, pack):
    expected = {"a": b"x" * 700, "b": b"y" * 10}
    assert content(put(pack(ARCHIVE))) == expected
    assert content(put(pack(ARCHIVE[:3072]))) == expected  # a single block of zeros is an end too


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"no tar at all",
        ARCHIVE[:300],
        ARCHIVE[: A_LENGTH - 1],  # within the padding
        ARCHIVE[:A_LENGTH],  # at a header
        ARCHIVE[: A_LENGTH + 100],  # within a header
        ARCHIVE[: A_LENGTH + 512],  # at the data
        ARCHIVE[: A_LENGTH + 1024],  # no end mark
        ARCHIVE + b"trailing",
        ARCHIVE[:A_LENGTH] + b"?" + ARCHIVE[A_LENGTH + 1 :],  # a wrong header
    ],
    ids=range(10),
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_damaged_tar(put, damaged, pack):
    with pytest.raises(ValueError, match="expected"):
        content(put(pack(damaged)))


def test_damaged_gzip(put):
    packed = gzip.compress(ARCHIVE)
    flipped = packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]
    for damaged in (packed[:-1], packed[:-5], packed[:-30], flipped):
        with pytest.raises(ValueError, match=r"ended before|CRC"):
            content(put(damaged))


DIGIT_LABELS = np.array([[1], [10], [9], [2]], dtype=np.uint8)


def test_svhn(put):
    images = pixels(4, 32, 32, 3)
    for labels in (DIGIT_LABELS, DIGIT_LABELS.astype(float)):
        path = put(mat(X=images.transpose(1, 2, 3, 0), y=labels))
        check(read_svhn(path), images, [1, 0, 9, 2], "0123456789")


def resized(images):
    return np.stack(
        [np.asarray(Image.fromarray(x).resize((32, 32), Image.Resampling.BILINEAR)) for x in images]
    )


SIGNS = [pixels(15 + label, 250 - label, 3) for label in range(43)]


def test_gtsrb_training(put):
    members = {"../outside.ppm": b"odd", "GTSRB/Readme.txt": b"text"} | gtsrb_training(SIGNS)
    names = [f"{label:05d}" for label in range(43)]
    check(read_gtsrb_training(put(zipped(members.items()))), resized(SIGNS), np.arange(43), names)


def test_resizing_averages_over_what_it_shrinks(put):
    """Not a sample of four neighbours: stripes of one pixel turn to grey."""
    stripes = np.zeros((320, 320, 3), dtype=np.uint8)
    stripes[:, ::2] = 200
    parsed = read_gtsrb_training(put(zipped(gtsrb_training([stripes] * 43).items())))
    assert np.abs(parsed[0].astype(int) - 100).max() <= 4


TEST_MEMBERS = {f"GTSRB/Final_Test/Images/{n:05d}.ppm": encoded(SIGNS[n], "PPM") for n in (0, 1, 2)}
TEST_ROWS = [("00002.ppm", 42), ("00000.ppm", 16), ("00001.ppm", 0)]


def test_gtsrb_test(put):
    images = put(zipped(TEST_MEMBERS.items()), "images")
    labels = put(zipped([("GT-final_test.csv", gtsrb_csv(TEST_ROWS))]), "labels")
    parsed = read_gtsrb_test(images, labels)
    check(parsed, resized([SIGNS[2], SIGNS[0], SIGNS[1]]), [42, 16, 0], parsed[2])
    assert len(parsed[2]) == 43


@pytest.mark.parametrize("good", [ARCHIVE, gzip.compress(ARCHIVE)], ids=["plain", "gzip"])
def test_random_damage_gives_one_error_or_none(put, good):
    random = np.random.default_rng(0)
    errors = []
    for _ in range(60):
        bad = bytearray(good)
        for place in random.integers(0, len(bad), 3):
            bad[place] = random.integers(0, 256)
        path = put(bad)
        try:
            content(path)
        except ValueError as error:
            errors.append(str(error))
    assert len(errors) > 10
    assert [each for each in errors if not each.startswith(f"{path}: ") or "\n" in each] == []


def test_other_decoders_are_not_tried():
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n"
    with pytest.raises(ValueError, match="PNG or JPEG"):
        decode_image(eps, "thing", ("PNG", "JPEG"))


def test_decoded_image_is_of_the_size_it_states():
    """A header that promises more pixels than memory holds is refused before they are made."""
    png = bytearray(encoded(pixels(2, 2, 3), "PNG"))
    png[16:24] = b"\x00\x02\x00\x00" * 2
    png[29:33] = zlib.crc32(png[12:29]).to_bytes(4, "big")
    with pytest.raises(ValueError, match="damage"):
        decode_image(bytes(png), "thing", ("PNG",))
