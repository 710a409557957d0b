"""The functions of JAX that lose types, with their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax

Function = TypeVar("Function", bound=Callable[..., Any])
Carry = TypeVar("Carry")


def jit(function: Function, *, static_argnums: int | None = None) -> Function:
    """Compile a function at its first call: ``jax.jit``."""
    return cast(Function, jax.jit(function, static_argnums=static_argnums))


def fori_loop(
    lower: int, upper: Any, body: Callable[[jax.Array, Carry], Carry], carry: Carry
) -> Carry:
    """Apply ``body`` for i = lower, ..., upper - 1: ``jax.lax.fori_loop``."""
    return cast(Carry, jax.lax.fori_loop(lower, upper, body, carry))
