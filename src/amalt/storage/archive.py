"""Finished runs on disk: one zarr directory, written whole or not at all, read only if whole."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, cast

import xarray as xr
import zarr

from amalt.errors import AmaltError

FORMAT = 1
"""Counts changes that older versions cannot read; kept as the attribute ``amalt_format``."""

GROUPS = ("posterior", "sample_stats", "unconstrained_posterior")
"""What every saved posterior holds."""


def write_tree(tree: xr.DataTree, path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Write a tree to the directory ``path``; if that fails, everything is as it was before."""
    path = check_free(path, overwrite=overwrite)
    made = [parent for parent in path.parents if not parent.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_and_swap(tree, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            for parent in made:
                parent.rmdir()
        raise AmaltError(
            f"cannot write {path}: {error}. Nothing was left there; free some space or pass "
            "another path."
        ) from error
    return path


def check_free(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Return the resolved path if something can be written there, as far as one can tell."""
    path = Path(os.path.realpath(path))
    if os.path.exists(path):  # unlike Path.exists, no error for names that cannot exist
        if not overwrite:
            raise AmaltError(f"{path} exists already: pass overwrite=True, or another path.")
        if _read_format(path) is None:
            raise AmaltError(
                f"{path} exists and is not a saved posterior, so overwrite=True does not replace "
                "it: pass another path, or remove it yourself."
            )
    return path


def read_tree(path: str | os.PathLike[str]) -> xr.DataTree:
    """Read a tree written by `write_tree` into memory, or say why it cannot be trusted."""
    path = Path(path)
    if not os.path.isdir(path):
        raise AmaltError(f"{path} is not a directory: pass the path given to Posterior.save.")
    found = _read_format(path)
    if found != FORMAT:
        raise AmaltError(
            f"{path} does not hold a posterior that this version reads (its amalt_format is "
            f"{found!r}, not {FORMAT}): pass the path given to Posterior.save."
        )
    # zarr, its codecs and JSON raise many kinds of errors on damaged files; all mean the same.
    try:
        missing = _missing(path)
        tree = xr.open_datatree(str(path), engine="zarr", consolidated=True).load()
    except Exception as error:
        raise AmaltError(f"{path} is damaged: {error}. Restore it from a copy.") from error
    missing += [group for group in GROUPS if group not in tree.children]
    if missing:
        raise AmaltError(
            f"{path} is damaged: parts of {', '.join(missing[:5])} are missing. Restore it from "
            "a copy."
        )
    return tree


def _write_and_swap(tree: xr.DataTree, path: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=".amalt-", dir=path.parent))
    new, old = scratch / "new", scratch / "old"
    try:
        # Every chunk becomes a file, so that one that is missing later is a damage.
        with zarr.config.set({"array.write_empty_chunks": True}):
            tree.to_zarr(new, zarr_format=2, consolidated=True)
        if path.exists():
            path.rename(old)
        new.rename(path)
    finally:
        # Whatever happened, Ctrl-C included: what was there stays if nothing has replaced it.
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(scratch, ignore_errors=True)


def _read_format(path: Path) -> Any:
    """Return the attribute ``amalt_format`` of a directory, None where there is none."""
    try:
        attrs: Any = json.loads((path / ".zattrs").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return cast("dict[str, Any]", attrs).get("amalt_format") if isinstance(attrs, dict) else None


def _missing(path: Path) -> list[str]:
    """Name the arrays whose files are not all there: zarr would fill them with NaN or zero."""
    group = cast("Any", zarr.open_group(str(path), mode="r", use_consolidated=True))
    return [
        name
        for name, node in group.members(max_depth=None)
        if isinstance(node, zarr.Array) and node.nchunks_initialized < node.nchunks
    ]
