"""Target: a log density on a flat unconstrained vector, and names for what it holds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from amalt.errors import TargetError
from amalt.targets.labels import Variable, check_labels, check_unique, rename
from amalt.typed import jit

Position = Any
"""A pytree of floating-point arrays: one point of the unconstrained space."""

Truth = Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
"""For each variable: its mean, its standard deviation and the standard error of the mean."""


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
    names
        What the leaves of the position are called, in their order, instead of by their keys.
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
        names: Sequence[str] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        truth: Truth | None = None,
    ) -> None:
        if not callable(logdensity_fn):
            raise TargetError(
                f"logdensity_fn is a {type(logdensity_fn).__name__}, which cannot be called: "
                "pass a function of one position that returns its log density."
            )
        if constrain is not None and not callable(constrain):
            raise TargetError(
                f"constrain is a {type(constrain).__name__}, which cannot be called: pass a "
                "function of one position that returns a dictionary."
            )
        self.name = _name_of(name, logdensity_fn)
        self.parts, leaves = _named_leaves(example_position)
        if names is not None:
            self.parts = rename(self.parts, names)
        check_unique(part.name for part in self.parts)
        example = jax.tree.unflatten(jax.tree.structure(example_position), leaves)
        # Leaves may differ in precision, even where the user has forbidden promotion.
        with jax.numpy_dtype_promotion("standard"):
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
        self.dims, self.coords = check_labels(self.variables, dims, coords)
        self.truth = truth

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
        z = jnp.asarray(z)
        if z.shape != (self.dim,):
            raise TargetError(
                f"z has shape {z.shape}: the log density of {self.name!r} takes one flat vector of "
                f"{self.dim} numbers; use jax.vmap for more."
            )
        if not jnp.issubdtype(z.dtype, jnp.floating):
            z = z.astype(self.dtype)
        with _explained_tracing(f"the log density of {self.name!r}"):
            value: Any = self._logdensity_fn(self.unravel(z))
        if not _is_array(value):
            raise TargetError(
                f"the log density of {self.name!r} returned a {type(value).__name__}; it must "
                "return one real number."
            )
        shape, dtype = jnp.shape(value), jnp.result_type(value)
        if shape != ():
            raise TargetError(
                f"the log density of {self.name!r} returned shape {shape}; it must return one "
                "number for one position (sum over observations; do not batch over chains)."
            )
        if not jnp.issubdtype(dtype, jnp.floating):
            raise TargetError(
                f"the log density of {self.name!r} returned dtype {dtype}; it must be a "
                "floating-point number."
            )
        return jnp.asarray(value, dtype=z.dtype)

    def _constrain_one(self, z: jax.Array) -> dict[str, jax.Array]:
        what = f"constrain of {self.name!r}"
        with _explained_tracing(what):
            variables: Any = self._constrain_fn(self.unravel(z))
        if not isinstance(variables, Mapping) or not variables:
            raise TargetError(
                f"{what} returned {_kind(variables)}; it must return a dictionary from names to "
                "arrays, with at least one of them."
            )
        clean: dict[str, jax.Array] = {}
        for name, value in cast("Mapping[Any, Any]", variables).items():
            if not isinstance(name, str):
                raise TargetError(f"{what} returned the key {name!r}: names must be strings.")
            dtype = jnp.result_type(value) if _is_array(value) else None
            if getattr(dtype, "kind", None) not in ("b", "i", "u", "f"):
                raise TargetError(
                    f"{what} returned {_kind(value)} for {name!r}; it must be an array of real "
                    "numbers, integers or booleans."
                )
            clean[name] = jnp.asarray(value)
        return clean

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


def _name_of(name: Any, function: Any) -> str:
    if not isinstance(name, str):
        raise TargetError(f"name={name!r} is a {type(name).__name__}: pass a string.")
    return name or str(getattr(function, "__name__", "target")).strip("<>")


@contextlib.contextmanager
def _explained_tracing(what: str) -> Generator[None]:
    """Turn JAX's errors about functions that cannot be traced into words; let others pass."""
    try:
        yield
    except jax.errors.TracerArrayConversionError as error:
        raise TargetError(
            f"{what} turns a traced array into a NumPy array, which JAX cannot follow: write it "
            "with jax.numpy and jax.scipy instead of numpy and scipy."
        ) from error
    except (
        jax.errors.ConcretizationTypeError,
        jax.errors.NonConcreteBooleanIndexError,
        jax.errors.TracerIntegerConversionError,
    ) as error:
        raise TargetError(
            f"{what} needs the value of a position where JAX knows only its shape (a Python if, "
            "float(), int() or index): write it with jnp.where, jax.lax.cond or jnp.take."
        ) from error


def _is_array(value: Any) -> bool:
    """Tell whether ``value`` is one array or number, not a container or something else."""
    known = jax.Array | np.ndarray | np.generic | bool | int | float | complex
    return isinstance(value, known) or hasattr(value, "__jax_array__")


def _kind(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        return f"an array of dtype {dtype}"
    return f"a {type(value).__name__}" if value else f"{value!r}"


def _named_leaves(example: Position) -> tuple[tuple[Variable, ...], list[jax.Array]]:
    """Flatten a pytree into named parts and float arrays, refusing what is not real."""
    parts: list[Variable] = []
    leaves: list[jax.Array] = []
    try:
        named = cast(Any, jax.tree_util.tree_leaves_with_path(example))
    except ValueError as error:
        raise TargetError(
            "the keys of a dictionary in the example position cannot be sorted: use strings."
        ) from error
    for path, leaf in named:
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "x"
        try:
            if isinstance(leaf, str | bytes):
                raise TypeError(leaf)
            array = jnp.asarray(float(leaf) if type(leaf) is int else leaf)
        except (OverflowError, TypeError, ValueError) as error:
            raise TargetError(
                f"{name!r} in the example position is a {type(leaf).__name__}, not an array: "
                "pass numbers."
            ) from error
        if array.dtype not in (jnp.float32, jnp.float64):
            raise TargetError(
                f"{name!r} in the example position has dtype {array.dtype}; it must be float32 or "
                "float64: convert it with jnp.asarray(value, float)."
            )
        parts.append(Variable(name, tuple(array.shape)))
        leaves.append(array)
    return tuple(parts), leaves
