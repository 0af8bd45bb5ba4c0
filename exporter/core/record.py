"""Frozen records that are cheap to make: a cycle makes thousands of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_options: Any) -> Any:
        return lambda decorator: decorator


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Declare `@dataclass(frozen=True, slots=True)`, but frozen by the type checkers alone.

    At run time it is not: to refuse an assignment, a frozen dataclass makes each of its own through a function, which
    took an eighth of a cycle. Hashed and compared by value all the same.
    """
    return dataclass(slots=True, unsafe_hash="__hash__" not in vars(cls))(cls)
