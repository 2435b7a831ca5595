"""The messages that the contract sends and expects back."""

from typing import NamedTuple


class Message(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class Received(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


BOTH_NULL = Message(headers=(("only", b"header"),))

SAMPLES = [
    Message(b"key", b"value", (("first", b"1"), ("first", b"again"), ("empty", b""))),
    Message(None, b"no key"),
    Message(b"no value", None),
    Message(b"", b""),
    Message("schlüssel".encode(), "wert → 値".encode(), (("größe", "ü".encode()),)),
    Message(b"long", b"compressible " * 2000),
]


def content(received):
    """A received message without offset and time, to compare with what was sent."""
    return Message(received.key, received.value, received.headers)
