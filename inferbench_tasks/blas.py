"""Linear algebra on one core.

The matrices here have a few dozen rows. OpenBLAS spreads even those over all cores, and its threads spin while they
wait for one another: on a busy machine of two cores training the digits took 32 s, and takes 4 s with one thread each,
with the same bits.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """For the length of a ``with`` this process's BLAS libraries use one thread each.

    Child processes and their environment are not touched.
    """
    return _libraries().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@cache
def _libraries() -> Any:
    """The libraries of NumPy and of SciPy, which brings its own."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
