"""One sampler each: a kernel with its adaptation, for all chains, as the driver sees it."""

from amalt.methods.base import DrawRecord, Method
from amalt.methods.registry import METHODS, build

__all__ = ["METHODS", "DrawRecord", "Method", "build"]
