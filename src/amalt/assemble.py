"""From arrays to a labeled Posterior: names, dims, coords and attributes."""

from __future__ import annotations

import dataclasses
import datetime
import json
from importlib.metadata import version
from typing import Any, cast

import jax
import numpy as np
import xarray as xr

from amalt.methods import DrawRecord
from amalt.posterior import Cost, Posterior
from amalt.run.loop import WarmupRecord
from amalt.storage.archive import FORMAT
from amalt.targets import Target
from amalt.targets.labels import dims_of
from amalt.tuning import Tuning


def assemble(
    target: Target,
    draws: DrawRecord,
    warmup: WarmupRecord | None,
    tuning: Tuning | None,
    cost: Cost,
    attrs: dict[str, Any],
) -> Posterior:
    """Label the draws ``[chain, draw, ...]`` and put them into one tree."""
    positions = np.asarray(draws.position)
    groups = {
        "posterior": constrained_dataset(target, positions),
        "sample_stats": stats_dataset(draws, tuning),
        "unconstrained_posterior": unconstrained_dataset(target, positions),
    }
    if warmup is not None:
        groups["warmup"] = warmup_dataset(target, warmup)
        if warmup.draws is not None:
            groups["warmup_posterior"] = constrained_dataset(target, warmup.draws.position)
            groups["warmup_sample_stats"] = stats_dataset(warmup.draws, None)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(_attributes(target, cost, attrs))
    return Posterior(tree)


def constrained_dataset(target: Target, positions: np.ndarray) -> xr.Dataset:
    """Map positions to the variables, chain by chain, and label them."""
    by_chain = [jax.tree.map(np.asarray, target.constrain(chain)) for chain in positions]
    variables: dict[str, Any] = {}
    for variable in target.variables:
        dims = dims_of(variable, target.dims)
        values = np.stack([chain[variable.name] for chain in by_chain])
        variables[variable.name] = (("chain", "draw", *dims), values)
    dataset = xr.Dataset(variables, coords=_chain_and_draw(positions))
    coords = {dim: labels for dim, labels in target.coords.items() if dim in dataset.dims}
    unlabeled = {d: np.arange(n) for d, n in dataset.sizes.items() if d not in dataset.coords}
    return dataset.assign_coords({**unlabeled, **coords})


def unconstrained_dataset(target: Target, positions: np.ndarray) -> xr.Dataset:
    """Label the flat vectors by the entries of the position."""
    entries = np.array([target.element(i) for i in range(target.dim)])
    return xr.Dataset(
        {"z": (("chain", "draw", "entry"), positions)},
        coords={**_chain_and_draw(positions), "entry": entries},
    )


def stats_dataset(draws: DrawRecord, tuning: Tuning | None) -> xr.Dataset:
    """Label what is known of each draw, and the constants of the run if it had any."""
    per_draw: dict[str, Any] = {
        "lp": draws.logdensity,
        "acceptance_rate": draws.acceptance_rate,
        "energy_error": draws.energy_error,
        "diverging": draws.is_diverging,
        "n_steps": draws.num_steps,
    }
    constants: dict[str, Any] = {}
    if tuning is not None:
        constants = {
            "step_size": tuning.step_size,
            "int_time": np.nan if tuning.integration_time is None else tuning.integration_time,
            "damping": tuning.damping,
            "inv_metric": ("entry", np.broadcast_to(tuning.variances, draws.position.shape[-1:])),
        }
    variables = {name: (("chain", "draw"), value) for name, value in per_draw.items()}
    dataset = xr.Dataset(
        {**variables, **constants}, coords=_chain_and_draw(np.asarray(draws.logdensity))
    )
    dataset["lp"].attrs["long_name"] = "log density in the unconstrained space, Jacobian included"
    return dataset


def warmup_dataset(target: Target, record: WarmupRecord) -> xr.Dataset:
    """Label the history of a warm-up; variances are known at block ends."""
    trace = {name: ("step", value) for name, value in record.trace._asdict().items()}
    entries = np.array([target.element(i) for i in range(target.dim)])
    return xr.Dataset(
        {**trace, "variances": (("edge", "entry"), record.variances)},
        coords={
            "step": np.arange(1, len(record.trace.step_size) + 1),
            "edge": record.variance_steps,
            "entry": entries,
        },
    )


def _chain_and_draw(array: np.ndarray) -> dict[str, np.ndarray]:
    return {"chain": np.arange(array.shape[0]), "draw": np.arange(array.shape[1])}


def _attributes(target: Target, cost: Cost, attrs: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of the ArviZ schema, and those that make a run reproducible."""
    from amalt import __version__

    device = cast("Any", jax.devices()[0])
    return {
        "amalt_format": FORMAT,
        "inference_library": "amalt",
        "inference_library_version": __version__,
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(),
        "target": target.name,
        "sampling_time": cost.sampling_seconds,
        "cost": json.dumps(dataclasses.asdict(cost)),
        "jax_version": jax.__version__,
        "jaxlib_version": version("jaxlib"),
        "device": f"{device.platform}: {device.device_kind}",
        "precision": str(target.dtype),
        **attrs,
    }
