"""The override marker leaves a method as it is, on every supported Python."""

from messenger.compat import override


class Base:
    def tag(self) -> str:
        """The tag of a frame."""
        return "HELLO"

    @property
    def size(self) -> int:
        return 1


class Derived(Base):
    @override
    def tag(self) -> str:
        return "WAIT"

    @property
    @override
    def size(self) -> int:
        return 2


def test_an_override_is_marked_and_works_as_before() -> None:
    assert (Derived().tag(), Derived().size) == ("WAIT", 2)
    assert Derived.tag.__override__ is True  # type: ignore[attr-defined]
