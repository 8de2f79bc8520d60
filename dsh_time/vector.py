"""An append-only sequence whose older states stay valid: states share one list, so that appending costs O(1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class Vector(Sequence[T]):
    """The first `len(self)` items of a list that later states may have made longer.

    Never changes. Appending to the newest state adds to the shared list; appending to an older one copies first.
    """

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[T] | None = None) -> None:
        """Take over `items`; the caller must not change the list afterwards."""
        self._items: list[T] = [] if items is None else items
        self._length = len(self._items)

    def append(self, item: T) -> Vector[T]:
        """Return the sequence with `item` at its end."""
        items = self._items if len(self._items) == self._length else self._items[: self._length]
        items.append(item)
        return Vector(items)

    def to_list(self) -> list[T]:
        """Return a list of its own with the same items."""
        return self._items[: self._length]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._items[i] for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._items[index % self._length]

    def __iter__(self) -> Iterator[T]:
        for index in range(self._length):
            yield self._items[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and self.to_list() == other.to_list()

    def __hash__(self) -> int:
        return hash(self._length)

    def __repr__(self) -> str:
        return f"Vector({self.to_list()!r})"
