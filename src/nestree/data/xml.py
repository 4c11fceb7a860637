"""XML as a stream of events with line numbers, without entities of its own making.

Documents that declare entities are refused: corpora do not need them, and they are how small files grow to fill the
memory ("billion laughs") or read files that are not theirs. A ``DOCTYPE`` that names a DTD is allowed and not fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple
from xml.parsers import expat

from nestree.data.errors import DataError

_CHUNK = 1 << 16


class Event(NamedTuple):
    """The start or end of an element, or text. ``line`` is where it begins."""

    kind: str  # "start", "end", "text"
    value: str  # tag, or text
    attributes: dict[str, str]
    line: int


def events(stream: BinaryIO, path: str) -> Iterator[Event]:
    """The events of a document, text in as many pieces as it comes.

    Raises:
        DataError: the XML is malformed, ends early, or declares entities.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True
    found: list[Event] = []

    def add(kind: str, value: str, attributes: dict[str, str] | None = None) -> None:
        found.append(Event(kind, value, attributes or {}, parser.CurrentLineNumber))

    def refuse(name: str, *_: object) -> None:
        raise DataError(
            f"the XML declares the entity {name!r}",
            path=path,
            line=parser.CurrentLineNumber,
            advice="Entities are not read, for safety: write out what they stand for.",
        )

    parser.StartElementHandler = lambda tag, attributes: add("start", tag, attributes)
    parser.EndElementHandler = lambda tag: add("end", tag)
    parser.CharacterDataHandler = lambda text: add("text", text)
    parser.EntityDeclHandler = refuse
    parser.SkippedEntityHandler = refuse
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    while True:
        chunk = stream.read(_CHUNK)
        try:
            parser.Parse(chunk, not chunk)
        except DataError:
            raise
        except expat.ExpatError as error:
            raise DataError(
                f"this is not well-formed XML: {expat.ErrorString(error.code)}, at column {error.offset + 1}",
                path=path,
                line=error.lineno,
                advice="Is the file complete?" if not chunk else None,
            ) from None
        except (LookupError, ValueError) as error:
            raise DataError(f"this XML cannot be decoded: {error}", path=path, line=parser.CurrentLineNumber) from None
        yield from found
        found.clear()
        if not chunk:
            return
