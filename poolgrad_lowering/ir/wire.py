# SPDX-License-Identifier: Apache-2.0

"""Reads the fields of many serialised messages at once, as numpy arrays.

The format is protobuf's (protobuf.dev, "Encoding"). This module reads length-delimited fields: a tag, a length, and
that many bytes. Messages with other fields are left to protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_LENGTH_DELIMITED = 2
_MOST_FIELDS = 64
_MOST_BYTES = 1 << 16
"""Messages with more fields or bytes are left to protobuf: each field takes one round, and all bytes are copied."""
_LONGEST_LENGTH = 3
"""The number of bytes that encode a length below 2^21."""


@dataclass(frozen=True)
class Fields:
    """The fields of many messages, ordered by message and then as stored.

    All arrays are int64 of shape [fields]: `owners` are the positions of the messages, `tags` the field numbers, and
    the content of a field is `data[begin:end]`. `unread` are the positions of the messages that must be parsed by
    protobuf; they own no fields.
    """

    data: bytes
    owners: Integers
    tags: Integers
    begins: Integers
    ends: Integers
    unread: list[int]

    def of(self, tag: int) -> tuple[list[int], list[bytes]]:
        """Owners and contents of the fields with a number."""
        owners, places = self._places(tag)
        return owners, [self.data[begin:end] for begin, end in places]

    def strings(self, tag: int) -> tuple[list[int], list[str]]:
        """Owners and contents of the fields with a number, as `str`; as `bytes` if not UTF-8, like protobuf."""
        owners, places = self._places(tag)
        text = self._text
        found = [text[begin:end] for begin, end in places]
        if not "".join(found).isascii():
            found = [_decoded(string) for string in found]
        return owners, found

    def _places(self, tag: int) -> tuple[list[int], Iterator[tuple[int, int]]]:
        """Owners, begins and ends of the fields with a number."""
        chosen = self.tags == tag
        return self.owners[chosen].tolist(), zip(self.begins[chosen].tolist(), self.ends[chosen].tolist(), strict=True)

    @cached_property
    def _text(self) -> str:
        """`data` with one character for each byte."""
        return str(self.data, "latin-1")


def read_fields(messages: Sequence[bytes], known: Sequence[int]) -> Fields:
    """The fields of messages. A message with a field that is not in `known` or not length-delimited stays unread."""
    lengths = np.fromiter(map(len, messages), np.int64, len(messages))
    small = lengths <= _MOST_BYTES
    data = b"".join(messages if small.all() else [message for message in messages if len(message) <= _MOST_BYTES])
    lengths[~small] = 0
    ends = np.cumsum(lengths)
    rounds, unread = _rounds(data, ends - lengths, ends, known)
    columns = _in_order(rounds)
    unread |= ~small
    kept = ~unread[columns[0]]
    owners, tags, begins, stops = columns if kept.all() else [column[kept] for column in columns]
    return Fields(data, owners, tags, begins, stops, np.flatnonzero(unread).tolist())


def _decoded(string: str) -> Any:
    stored = string.encode("latin-1")
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


_Round = tuple[Integers, Integers, Integers, Integers]


def _rounds(data: bytes, at: Integers, stops: Integers, known: Sequence[int]) -> tuple[list[_Round], NDArray[np.bool_]]:
    """Round k has the owners, tags, begins and ends of the k-th field of every message. The second result is a boolean
    array of shape [messages]: which messages stay unread."""
    padded = np.frombuffer(data + bytes(1 + _LONGEST_LENGTH), np.uint8)
    is_known = np.zeros(256, np.bool_)
    is_known[[tag << 3 | _LENGTH_DELIMITED for tag in known]] = True
    unread = np.zeros(len(at), np.bool_)
    rounds: list[_Round] = []
    owners = np.flatnonzero(at < stops)
    at, stops = at[owners], stops[owners]
    while len(owners) and len(rounds) < _MOST_FIELDS:
        keys = padded[at]
        begins, ends = _contents(padded, at + 1)
        good = is_known[keys] & (ends <= stops)
        if not good.all():
            unread[owners[~good]] = True
            owners, keys, stops, begins, ends = owners[good], keys[good], stops[good], begins[good], ends[good]
        rounds.append((owners, keys >> 3, begins, ends))
        more = ends < stops
        owners, at, stops = owners[more], ends[more], stops[more]
    unread[owners] = True
    return rounds, unread


def _contents(padded: NDArray[np.uint8], at: Integers) -> tuple[Integers, Integers]:
    """Begins and ends of the contents whose lengths are encoded at the positions `at`. The end is past the end of the
    data if a length takes more than `_LONGEST_LENGTH` bytes."""
    lengths, begins = padded[at].astype(np.int64), at + 1
    longer = np.flatnonzero(lengths >= 0x80)
    for number in range(1, _LONGEST_LENGTH):
        byte = padded[begins[longer]].astype(np.int64)
        lengths[longer] += (byte - 1) << 7 * number  # removes the continuation bit of the byte before
        begins[longer] += 1
        longer = longer[byte >= 0x80]
    lengths[longer] = len(padded)
    return begins, begins + lengths


def _in_order(rounds: Sequence[_Round]) -> _Round:
    """The fields of all rounds, ordered by message."""
    if not rounds:
        return (np.zeros(0, np.int64),) * 4
    owners = np.concatenate([owners for owners, *_ in rounds])
    counts = np.bincount(owners)
    firsts = np.cumsum(counts) - counts
    places = firsts[owners] + np.repeat(np.arange(len(rounds)), [len(owners) for owners, *_ in rounds])
    order = np.empty(len(owners), np.int64)
    order[places] = np.arange(len(owners))
    _, tags, begins, ends = (np.concatenate(column) for column in zip(*rounds, strict=True))
    return owners[order], tags[order], begins[order], ends[order]
