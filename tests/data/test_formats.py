import gzip
import io
import re
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
    jpeg_tar,
    mat,
    pixels,
    records,
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
    read_idx,
    read_jpeg_tar,
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


def refused(read, *arguments, match):
    """The reader's one error, which starts with the name of a file."""
    with pytest.raises(ValueError, match=match) as caught:
        read(*arguments)
    message = str(caught.value)
    assert any(message.startswith(f"{path}: ") for path in arguments)
    assert "\n" not in message
    assert " expected " in message
    assert ", found " in message


def check(parsed, images, labels, names):
    np.testing.assert_array_equal(parsed[0], images)
    np.testing.assert_array_equal(parsed[1], labels)
    assert (parsed[0].dtype, parsed[1].dtype) == (np.uint8, np.int64)
    assert parsed[2] == tuple(names)


# --- IDX ----------------------------------------------------------------------------------------

DIGITS = np.arange(10, dtype=np.uint8)


def test_fashion_mnist(put):
    images = pixels(10, 28, 28)
    parsed = read_fashion_mnist(put(idx(images), "images"), put(idx(DIGITS), "labels"))
    check(parsed, images[..., np.newaxis], DIGITS, parsed[2])
    assert (len(parsed[2]), parsed[2][0], parsed[2][9]) == (10, "T-shirt/top", "Ankle boot")


PLAIN = gzip.decompress(idx(DIGITS))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected the IDX magic number 00000801 .*, found an empty file"),
        (PLAIN, "expected a gzip-compressed IDX file, found damage: Not a gzipped file"),
        (idx(DIGITS)[:-3], "found damage: Compressed file ended before"),
        (idx(DIGITS)[:-8] + b"\0" * 8, "found damage: (CRC check failed|Incorrect length)"),
        (idx(DIGITS) + b"junk", "found damage: Not a gzipped file"),
        (idx(DIGITS[:, None]), "magic number 00000801 .* in 1 dimensions.*, found 00000802"),
        (gzip.compress(b"\0\0\x0d" + PLAIN[3:], mtime=0), "found 00000d01"),
        (gzip.compress(PLAIN[:6], mtime=0), "expected 1 IDX dimensions, found the file's end"),
        (gzip.compress(PLAIN[:-1], mtime=0), "expected 10 bytes of data, found 9"),
        (gzip.compress(PLAIN + b"\0", mtime=0), "expected 10 bytes of data, found more"),
        (
            gzip.compress(PLAIN[:4] + b"\xff" * 4, mtime=0),
            "expected 4294967295 bytes of data, found 0",
        ),
        (
            gzip.compress(PLAIN[:4] + b"\0" * 4, mtime=0),
            r"at least one value, found .* shape \(0,\)",
        ),
    ],
)
def test_damaged_idx(put, content, message):
    refused(read_idx, put(content), 1, match=message)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (DIGITS[:9], "labels: expected 10 labels, found 9"),
        (DIGITS + 1, "labels: expected labels from 0 to 9, found 10 in row 9"),
    ],
)
def test_fashion_mnist_labels(put, labels, message):
    images = put(idx(pixels(10, 4, 4)), "images")
    refused(read_fashion_mnist, images, put(idx(labels), "labels"), match=message)


# --- CIFAR --------------------------------------------------------------------------------------

IMAGES = pixels(12, 32, 32, 3)
LABELS = np.array([3, 9, 0, 1, 2, 4, 5, 6, 7, 8, 9, 0], dtype=np.uint8)
FINE = np.arange(99, 87, -1)
COARSE = np.arange(19, 7, -1)


def test_cifar10(put):
    path = put(tar(cifar10(IMAGES, LABELS).items()))
    check(read_cifar10(path, "train"), IMAGES[:10], LABELS[:10], CIFAR10_NAMES)
    check(read_cifar10(path, "test"), IMAGES[10:], LABELS[10:], CIFAR10_NAMES)


def test_batches_are_read_in_their_order_whatever_the_archive_s(put):
    path = put(tar(reversed(cifar10(IMAGES, LABELS).items())))
    check(read_cifar10(path, "train"), IMAGES[:10], LABELS[:10], CIFAR10_NAMES)


def test_cifar100(put):
    path = put(tar(cifar100(IMAGES, COARSE, FINE).items()))
    fine = [f"f{number}" for number in range(100)]
    coarse = [f"c{number}" for number in range(20)]
    check(read_cifar100(path, "train"), IMAGES[:6], FINE[:6], fine)
    check(read_cifar100(path, "test"), IMAGES[6:], FINE[6:], fine)
    check(read_cifar100(path, "test", "coarse"), IMAGES[6:], COARSE[6:], coarse)


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


BATCH = "cifar-10-batches-bin/test_batch.bin"
META = "cifar-10-batches-bin/batches.meta.txt"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({BATCH: None}, f"expected the member {BATCH}, found none"),
        ({META: None}, f"expected the member {META}, found none"),
        ({BATCH: b""}, "test_batch.bin: expected records of 3073 bytes, found 0 bytes"),
        ({BATCH: b"\0" * 6145}, "expected records of 3073 bytes, found 6145 bytes"),
        ({BATCH: b"\0" * 6147}, "expected records of 3073 bytes, found 6147 bytes"),
        ({BATCH: b"\x0a" * 3073}, "expected labels from 0 to 9, found 10 in row 0"),
        ({META: b"one two"}, "batches.meta.txt: expected 10 different class names, found 2"),
        ({META: b"a " * 10}, "expected 10 different class names"),
        ({BATCH: (tarfile.SYMTYPE, "/etc/passwd")}, f"expected the member {BATCH}, found none"),
    ],
)
def test_damaged_cifar10(put, changes, message):
    members = cifar10(IMAGES, LABELS) | changes
    path = put(tar([each for each in members.items() if each[1] is not None]))
    refused(read_cifar10, path, "test", match=message)


def test_cifar100_labels(put):
    for column, message in ((0, "0 to 19, found 20"), (1, "0 to 99, found 100")):
        labels = np.zeros((1, 2), dtype=np.uint8)
        labels[0, column] = (20, 100)[column]
        content = {"cifar-100-binary/test.bin": records(labels, IMAGES[:1])}
        path = put(tar((cifar100(IMAGES, COARSE, FINE) | content).items()))
        refused(read_cifar100, path, "test", match=f"expected labels from {message} in row 0")
    with pytest.raises(ValueError, match=r"labels must be one of .*, got 'medium'"):
        read_cifar100(path, "test", "medium")


@pytest.mark.parametrize("read", [read_cifar10, read_cifar100, read_jpeg_tar])
def test_unknown_split(read, tmp_path):
    with pytest.raises(ValueError, match=r"split must be one of \('train', 'test'\), got 'val'"):
        read(tmp_path / "never read", "val")


def test_a_member_given_twice(put):
    members = [*cifar10(IMAGES, LABELS).items()] * 2
    refused(read_cifar10, put(tar(members)), "test", match=r"once, found it twice")


# --- tar ----------------------------------------------------------------------------------------

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
    refused(content, put(pack(damaged)), match="expected")


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_truncated_gzip(put, cut):
    refused(content, put(gzip.compress(ARCHIVE)[:-cut]), match="ended before")


def test_wrong_checksum(put):
    packed = bytearray(gzip.compress(ARCHIVE))
    packed[-8] ^= 1
    refused(content, put(packed), match="CRC check failed")


# --- JPEGs in a tar -----------------------------------------------------------------------------


def decoded(members, split, names, count):
    keys = [f"{split}/{name}/{number:04d}.jpg" for name in names for number in range(count)]
    return np.stack([np.asarray(Image.open(io.BytesIO(members[key]))) for key in keys])


def test_jpeg_tar(put):
    members = jpeg_tar(2)
    shuffled = [list(members.items())[row] for row in np.random.default_rng(1).permutation(12)]
    odd = [
        ("README.md", b"text"),
        ("train/cat/../0000.jpg", b"odd"),
        ("../train/cat/0002.jpg", b"outside"),
        ("train/cat/0002.jpg", (tarfile.SYMTYPE, "0000.jpg")),
        ("train", (tarfile.DIRTYPE, "")),
    ]
    path = put(tar([*odd, *shuffled]))
    names = ("cat", "dog", "ship")
    for split in ("train", "test"):
        expected = decoded(members, split, names, 2)
        check(read_jpeg_tar(path, split), expected, [0, 0, 1, 1, 2, 2], names)


JPEG = "test/cat/0000.jpg"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({JPEG: None}, "images of test/cat to be numbered from 0 without gap, found 1 of them"),
        ({JPEG: b"no image"}, f"{JPEG}: expected an image .JPEG., found 8 bytes of something else"),
        ({JPEG: encoded(pixels(32, 32, 3), "PNG")}, "bytes of something else"),
        ({JPEG: encoded(pixels(32, 32, 3), "JPEG")[:-200]}, "found damage: image file is trunc"),
        ({JPEG: encoded(pixels(31, 32, 3), "JPEG")}, "found 32 x 31 in mode RGB"),
        ({JPEG: encoded(pixels(32, 32), "JPEG")}, "found 32 x 32 in mode L"),
        (dict.fromkeys(jpeg_tar(2)), r"expected test/<class>/<number>.jpg .*, found classes \[\]"),
    ],
)
def test_damaged_jpeg_tar(put, changes, message):
    members = jpeg_tar(2) | changes
    path = put(tar([each for each in members.items() if each[1] is not None]))
    refused(read_jpeg_tar, path, "test", match=message)


# --- SVHN ---------------------------------------------------------------------------------------

DIGIT_LABELS = np.array([[1], [10], [9], [2]], dtype=np.uint8)


def test_svhn(put):
    images = pixels(4, 32, 32, 3)
    for labels in (DIGIT_LABELS, DIGIT_LABELS.astype(float)):
        path = put(mat(X=images.transpose(1, 2, 3, 0), y=labels))
        check(read_svhn(path), images, [1, 0, 9, 2], "0123456789")


SVHN = mat(X=pixels(32, 32, 3, 4), y=DIGIT_LABELS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a MATLAB 5 file, found"),
        (b"no MAT file" * 20, "expected a MATLAB 5 file, found"),
        (SVHN[:-40], "expected a MATLAB 5 file, found"),
        (SVHN[:300], "expected a MATLAB 5 file, found"),
        (SVHN + b"some trailing bytes", "expected a MATLAB 5 file, found"),
        (SVHN + b"xyz", "expected a MATLAB 5 file, found"),
        (mat(X=pixels(32, 32, 3, 4)), r"expected the variables X and y, found \['X'\]"),
        (mat(X=pixels(32, 32, 3, 4), y=DIGIT_LABELS, z=1), r"found \['X', 'y', 'z'\]"),
        (mat(X=pixels(4, 32, 32, 3), y=DIGIT_LABELS), r"found uint8 of shape \(4, 32, 32, 3\)"),
        (mat(X=pixels(32, 32, 3), y=DIGIT_LABELS), r"found uint8 of shape \(32, 32, 3\)"),
        (mat(X=np.ones((32, 32, 3, 4)), y=DIGIT_LABELS), "X to be uint8 .* found float64"),
        (mat(X=pixels(32, 32, 3, 4), y=DIGIT_LABELS[:3]), r"shape \(4, 1\), found .* \(3, 1\)"),
        (mat(X=pixels(32, 32, 3, 4), y=DIGIT_LABELS - 1), "from 1 to 10, found 0"),
        (mat(X=pixels(32, 32, 3, 4), y=DIGIT_LABELS + 1), "from 1 to 10, found 11"),
        (mat(X=pixels(32, 32, 3, 4), y=DIGIT_LABELS * 0.5), "from 1 to 10, found 0.5"),
        (mat(X=pixels(32, 32, 3, 4), y=DIGIT_LABELS * np.nan), "from 1 to 10, found nan"),
    ],
)
def test_damaged_svhn(put, content, message):
    refused(read_svhn, put(content), match=message)


def test_absent_files_stay_absent(tmp_path):
    path = tmp_path / "none"
    for read in (read_svhn, read_gtsrb_training, content, lambda path: read_idx(path, 1)):
        with pytest.raises(FileNotFoundError):
            read(path)


# --- GTSRB --------------------------------------------------------------------------------------


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


PPM = "GTSRB/Training/00007/00000_00000.ppm"
CSV = "GTSRB/Training/00007/GT-00007.csv"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({CSV: None}, f"expected the member {CSV}, found none of that name"),
        ({PPM: None}, f"exactly the images that the CSV file lists .*, found {PPM} in one place"),
        ({f"{PPM[:-5]}1.ppm": b""}, f"found {PPM[:-5]}1.ppm in one place only"),
        ({PPM: encoded(SIGNS[7], "PPM")[:-9]}, f"{PPM}: expected an image .PPM., found damage"),
        ({PPM: encoded(SIGNS[7], "PNG")}, f"{PPM}: expected .*, found .* of something else"),
        ({PPM: b""}, f"{PPM}: expected .*, found 0 bytes of something else"),
        ({CSV: b""}, r"expected the columns \['ClassId', 'Filename'\], found \[\]"),
        ({CSV: b"Filename,ClassId\na.ppm,7\n"}, r"expected the columns"),
        ({CSV: gtsrb_csv([])}, "expected different file names, found 0 lines"),
        ({CSV: gtsrb_csv([("00000_00000.ppm", 7)] * 2)}, "different file names, found 2 lines"),
        ({CSV: gtsrb_csv([("00000_00000.ppm", 8)])}, "expected class id 7 only, found 8"),
        ({CSV: gtsrb_csv([("00000_00000.ppm", 43)])}, "line 2: expected a class id from 0 to 42"),
        ({CSV: gtsrb_csv([("00000_00000.ppm", "")])}, "class id from 0 to 42, found ''"),
        ({CSV: gtsrb_csv([("../00000.ppm", 7)])}, r"<digits>.ppm, found '../00000.ppm'"),
        ({CSV: b"Filename;ClassId\n00000_00000.ppm"}, "class id from 0 to 42, found ''"),
    ],
)
def test_damaged_gtsrb(put, changes, message):
    members = gtsrb_training([each[:4, :4] for each in SIGNS]) | changes
    path = put(zipped([each for each in members.items() if each[1] is not None]))
    refused(read_gtsrb_training, path, match=message)


ZIP = zipped(gtsrb_training([each[:4, :4] for each in SIGNS]).items())


@pytest.mark.parametrize(
    "damaged",
    [b"", b"no zip", ZIP[:-30], ZIP[len(ZIP) // 2 :], ZIP[:50] + b"\xff" * 30 + ZIP[80:]],
    ids=["empty", "foreign", "truncated", "second half", "overwritten"],
)
def test_damaged_zip(put, damaged):
    refused(read_gtsrb_training, put(damaged), match="expected .*, found damage")


# --- any damage ---------------------------------------------------------------------------------

READERS = {
    "idx": (idx(pixels(4, 28, 28)), lambda path: read_idx(path, 3)),
    "cifar": (
        tar(cifar10(np.zeros_like(IMAGES), LABELS).items()),
        lambda path: read_cifar10(path, "test"),
    ),
    "jpeg": (tar(jpeg_tar(1).items()), lambda path: read_jpeg_tar(path, "test")),
    "tar": (ARCHIVE, content),
    "mat": (SVHN, read_svhn),
    "zip": (ZIP, read_gtsrb_training),
}


@pytest.mark.filterwarnings("default")  # Pillow's and SciPy's remarks on what they see
@pytest.mark.parametrize("reader", READERS)
def test_random_damage_gives_one_error_or_none(put, reader):
    good, read = READERS[reader]
    random = np.random.default_rng(0)
    errors = []
    for _ in range(60):
        bad = bytearray(good)
        for place in random.integers(0, len(bad), 3):
            bad[place] = random.integers(0, 256)
        path = put(bad)
        try:
            read(path)
        except ValueError as error:
            errors.append(str(error))
    assert len(errors) > 10
    assert [each for each in errors if not each.startswith(f"{path}: ") or "\n" in each] == []


def test_other_decoders_are_not_tried():
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n"
    with pytest.raises(ValueError, match=r"thing: expected an image \(PNG or JPEG\), found"):
        decode_image(eps, "thing", ("PNG", "JPEG"))


def test_decoded_image_is_of_the_size_it_states():
    """A header that promises more pixels than memory holds is refused before they are made."""
    png = bytearray(encoded(pixels(2, 2, 3), "PNG"))
    png[16:24] = b"\x00\x02\x00\x00" * 2
    png[29:33] = zlib.crc32(png[12:29]).to_bytes(4, "big")
    with pytest.raises(ValueError, match=re.escape("thing: expected an image (PNG), found damage")):
        decode_image(bytes(png), "thing", ("PNG",))
