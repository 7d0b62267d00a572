"""Small files in the true formats of the published image sets, with the arrays they hold."""

import gzip
import io
import struct
import tarfile
import zipfile

import numpy as np
from PIL import Image

CIFAR10_NAMES = ["airplane", "automobile", "bird", "cat", "deer"]
CIFAR10_NAMES += ["dog", "frog", "horse", "ship", "truck"]


def rng():
    return np.random.default_rng(0)


def pixels(*shape):
    return rng().integers(0, 256, shape, dtype=np.uint8)


def idx(array):
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return gzip.compress(head + array.tobytes(), mtime=0)


def tar(members, mode="w:gz"):
    """A tar archive of (name, content) pairs; content may be a TarInfo's type instead of bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                member.type, member.linkname = content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def encoded(array, kind, **options):
    buffer = io.BytesIO()
    Image.fromarray(array.squeeze()).save(buffer, kind, **options)
    return buffer.getvalue()


def records(labels, images):
    """CIFAR's: the label bytes, then the red, the green and the blue plane."""
    return b"".join(
        bytes(label) + image.transpose(2, 0, 1).tobytes()
        for label, image in zip(labels, images, strict=True)
    )


def cifar10(images, labels):
    """Members of the archive with the last of six equal batches as the test batch."""
    files = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    parts = zip(np.split(images, 6), np.split(labels[:, np.newaxis], 6), strict=True)
    content = {file: records(y, x) for file, (x, y) in zip(files, parts, strict=True)}
    content["batches.meta.txt"] = "\n".join([*CIFAR10_NAMES, ""]).encode()
    return {f"cifar-10-batches-bin/{name}": each for name, each in content.items()}


def cifar100(images, coarse, fine):
    """Members of the archive with the second half as the test images."""
    content = records(np.column_stack([coarse, fine]).astype(np.uint8), images)
    half = len(content) // 2
    return {
        "cifar-100-binary/train.bin": content[:half],
        "cifar-100-binary/test.bin": content[half:],
        "cifar-100-binary/fine_label_names.txt": "\n".join(f"f{i}" for i in range(100)).encode(),
        "cifar-100-binary/coarse_label_names.txt": "\n".join(f"c{i}" for i in range(20)).encode(),
    }


def mat(**variables):
    from scipy.io import savemat

    buffer = io.BytesIO()
    savemat(buffer, variables, do_compression=True)
    return buffer.getvalue()


HEAD = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\r\n"


def gtsrb_csv(rows):
    return (HEAD + "".join(f"{name};9;9;1;1;7;7;{label}\r\n" for name, label in rows)).encode()


def gtsrb_training(images):
    """Members for one image per class."""
    members = {}
    for label, image in enumerate(images):
        folder, name = f"GTSRB/Training/{label:05d}/", "00000_00000.ppm"
        members[folder + name] = encoded(image, "PPM")
        members[f"{folder}GT-{label:05d}.csv"] = gtsrb_csv([(name, label)])
    return members
