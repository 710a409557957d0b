"""Target: a log density on a flat unconstrained vector, and names for what it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from amalt.errors import TargetError
from amalt.typed import jit

Position = Any
"""A pytree of floating-point arrays: one point of the unconstrained space."""

Truth = Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
"""For each variable: its mean, its standard deviation and the standard error of the mean."""


class Variable(NamedTuple):
    """One named part of a position or of its constrained image."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Count the scalars that the variable holds."""
        return math.prod(self.shape)

    def element(self, index: int) -> str:
        """Name scalar ``index`` of the flattened variable, as in ``theta[1, 2]``."""
        if not self.shape:
            return self.name
        where = ", ".join(str(i) for i in np.unravel_index(index, self.shape))
        return f"{self.name}[{where}]"


class Target:
    r"""A density :math:`\Pi(x) \propto \exp(-\Phi(x))` on a pytree of real numbers.

    Parameters
    ----------
    logdensity_fn
        Maps one position to the scalar :math:`-\Phi(x)`, in terms of jax.numpy. The space is
        unconstrained: a transformed parameter brings its log Jacobian along.
    example_position
        A position; its values may be arbitrary, its structure, shapes and precision count.
    constrain
        Maps one position to a dictionary of the variables that a reader wants to see. Without
        it, these are the leaves of the position.
    name
        What the target is called in tables and files.
    dims
        Dimension names of (some) variables, as ``{"theta": ("school",)}``.
    coords
        Labels of (some) dimensions, as ``{"school": ["A", "B"]}``.
    truth
        Known moments ``{variable: (mean, sd, mean_se)}`` of the constrained variables.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> target = Target(lambda x: -0.5 * jnp.sum(x["a"] ** 2), {"a": jnp.zeros(3)})
    >>> target.dim, float(target.logdensity(jnp.ones(3)))
    (3, -1.5)
    """

    def __init__(
        self,
        logdensity_fn: Callable[[Position], jax.Array],
        example_position: Position,
        *,
        constrain: Callable[[Position], Mapping[str, jax.Array]] | None = None,
        name: str = "",
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        truth: Truth | None = None,
    ) -> None:
        if not callable(logdensity_fn):
            raise TargetError(
                f"logdensity_fn is a {type(logdensity_fn).__name__}, which cannot be called: "
                "pass a function of one position that returns its log density."
            )
        self.name = name or getattr(logdensity_fn, "__name__", "target").strip("<>")
        self.parts, leaves = _named_leaves(example_position)
        _check_unique(part.name for part in self.parts)
        example = jax.tree.unflatten(jax.tree.structure(example_position), leaves)
        self.example, self.unravel = ravel_pytree(example)
        self.dim = int(self.example.size)
        if self.dim == 0:
            raise TargetError(f"the example position of {self.name!r} holds no numbers at all.")
        self.dtype = self.example.dtype
        self.traces = 0
        self._logdensity_fn = logdensity_fn
        self.logdensity = jit(self._checked_logdensity)
        self.value_and_grad = jit(jax.value_and_grad(self._checked_logdensity))
        self._constrain_fn = constrain or self._leaves_by_name
        self._constrain_rows = jit(jax.vmap(self._constrain_one))
        self.variables = self._shapes_of_constrained()
        self.dims = {key: tuple(value) for key, value in (dims or {}).items()}
        self.coords = {key: list(value) for key, value in (coords or {}).items()}
        self.truth = truth
        _check_labels(self.variables, self.dims, self.coords)

    def __repr__(self) -> str:
        inside = ", ".join(f"{v.name}{list(v.shape)}" for v in self.variables)
        return f"Target({self.name!r}, dim={self.dim}, variables: {inside})"

    def constrain(self, z: Any) -> dict[str, jax.Array]:
        """Map flat vectors ``z[..., dim]`` to the variables, batched over leading axes."""
        z = jnp.asarray(z, dtype=self.dtype)
        if z.ndim == 0 or z.shape[-1] != self.dim:
            raise TargetError(
                f"z has shape {tuple(z.shape)}; its last axis must have length {self.dim}, "
                f"the dimension of {self.name!r}."
            )
        rows = self._constrain_rows(z.reshape(-1, self.dim))
        return {key: value.reshape(z.shape[:-1] + value.shape[1:]) for key, value in rows.items()}

    def element(self, index: int) -> str:
        """Name entry ``index`` of the flat vector by the leaf that it belongs to."""
        for part in self.parts:
            if index < part.size:
                return part.element(index)
            index -= part.size
        raise IndexError(index)

    def flatten_points(self, points: Position) -> jax.Array:
        """Flatten a position whose leaves carry one leading axis to ``[points, dim]``."""
        return jax.vmap(lambda point: ravel_pytree(point)[0])(points)

    def _checked_logdensity(self, z: jax.Array) -> jax.Array:
        self.traces += 1
        value = self._logdensity_fn(self.unravel(z))
        shape, dtype = jnp.shape(value), jnp.result_type(value)
        if shape != ():
            raise TargetError(
                f"the log density of {self.name!r} returned shape {shape}; it must return one "
                "number for one position (sum over observations; do not batch over chains)."
            )
        if not jnp.issubdtype(dtype, jnp.floating):
            raise TargetError(
                f"the log density of {self.name!r} returned dtype {dtype}; it must be real."
            )
        return jnp.asarray(value, dtype=z.dtype)

    def _constrain_one(self, z: jax.Array) -> dict[str, jax.Array]:
        return {k: jnp.asarray(v) for k, v in self._constrain_fn(self.unravel(z)).items()}

    def _leaves_by_name(self, position: Position) -> dict[str, jax.Array]:
        names = (part.name for part in self.parts)
        return dict(zip(names, jax.tree.leaves(position), strict=True))

    def _shapes_of_constrained(self) -> tuple[Variable, ...]:
        shapes = jax.eval_shape(self._constrain_one, self.example)
        return tuple(Variable(name, tuple(s.shape)) for name, s in shapes.items())


def as_target(model: Any) -> Target:
    """Return ``model`` as a `Target`, or say how to make one of it.

    A target stays as it is, the name of a built-in posterior loads it.
    """
    if isinstance(model, Target):
        return model
    if isinstance(model, str):
        from amalt import gym

        return gym.load(model)
    if callable(model):
        raise TargetError(
            "a function alone does not tell the shape of its argument: pass "
            "amalt.Target(logdensity_fn, example_position)."
        )
    raise TargetError(
        f"cannot sample a {type(model).__name__}: pass amalt.Target(logdensity_fn, "
        "example_position) or the name of a built-in posterior (see amalt.gym.names())."
    )


def _named_leaves(example: Position) -> tuple[tuple[Variable, ...], list[jax.Array]]:
    """Flatten a pytree into named parts and float arrays, refusing what is not real."""
    parts: list[Variable] = []
    leaves: list[jax.Array] = []
    for path, leaf in cast(Any, jax.tree_util.tree_leaves_with_path(example)):
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "x"
        leaf = float(leaf) if isinstance(leaf, int) and not isinstance(leaf, bool) else leaf
        try:
            array = jnp.asarray(leaf)
        except (TypeError, ValueError) as error:
            raise TargetError(
                f"{name!r} in the example position is a {type(leaf).__name__}, not an array: "
                "pass numbers."
            ) from error
        if array.dtype not in (jnp.float32, jnp.float64):
            raise TargetError(
                f"{name!r} in the example position has dtype {array.dtype}; it must be float32 or "
                "float64 (write 0.0 instead of 0)."
            )
        parts.append(Variable(name, tuple(array.shape)))
        leaves.append(array)
    return tuple(parts), leaves


def _check_unique(names: Any) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TargetError(f"two parts of the example position are called {name!r}.")
        seen.add(name)


def _check_labels(
    variables: tuple[Variable, ...], dims: dict[str, tuple[str, ...]], coords: dict[str, list[Any]]
) -> None:
    """Refuse dims and coords that do not fit the shapes of the variables."""
    shapes = {v.name: v.shape for v in variables}
    for name, labels in dims.items():
        if name not in shapes:
            raise TargetError(f"dims names {name!r}, which is not one of {sorted(shapes)}.")
        if len(labels) != len(shapes[name]):
            raise TargetError(
                f"dims[{name!r}] = {labels} has {len(labels)} names for shape {shapes[name]}."
            )
        for label, size in zip(labels, shapes[name], strict=True):
            if label in ("chain", "draw"):
                raise TargetError(f"dims[{name!r}] uses {label!r}, which amalt itself needs.")
            if label in coords and len(coords[label]) != size:
                raise TargetError(
                    f"coords[{label!r}] has {len(coords[label])} labels for the length {size} "
                    f"of {name!r}."
                )
