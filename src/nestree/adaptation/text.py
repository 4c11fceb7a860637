"""Text to learn from: files of any kind, as the words of sentences. No torch here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

from nestree.data import Document, Report, Splitter, files, read
from nestree.data.errors import DataError, UnknownFormatError
from nestree.data.formats import detect, files_of, get
from nestree.data.formats.base import Format
from nestree.data.plain import is_text, text_files
from nestree.data.splitting import without_surrogates

CHUNK = 1 << 16
"""Characters of a plain text that are split into sentences together, and more up to the end of a paragraph or line."""
ARCHIVES = (".zip", ".7z", ".rar", ".zst", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
TEXT = "text"
"""What plain text is called where formats are named."""


@dataclass(frozen=True)
class Text:
    """Sentences to learn from, and where they come from.

    Attributes:
        sentences: the words of each.
        files: what was read: its name, format and how many sentences it had.
        fingerprint: SHA-256 over all words and sentences.
        report: what was noticed while reading.
        source: how to read it again.
    """

    sentences: tuple[tuple[str, ...], ...]
    files: tuple[Mapping[str, object], ...]
    fingerprint: str
    report: Report = field(default_factory=Report)
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> int:
        """In all sentences."""
        return sum(map(len, self.sentences))


def read_text(
    paths: Sequence[str | PathLike[str]],
    splitter: Splitter,
    *,
    format_name: str | None = None,
    options: Mapping[str, str] | None = None,
    plain: bool = False,
    endings: bool = False,
) -> Text:
    """The sentences of files and folders.

    Plain text is split; corpora that come as words are taken as these words. Annotation is not looked at.

    Args:
        paths: files, possibly compressed (.gz, .bz2, .xz), and folders.
        splitter: of text without words or sentences.
        format_name: of corpora; recognised if left out.
        options: of that format.
        plain: whether files are plain text, whatever their ending.
        endings: whether files that end in .txt are plain text even if a format is named.

    Raises:
        DataError: there is no text, or a file cannot be read.
    """
    report = Report()
    found: list[tuple[str, ...]] = []
    read_files = []
    seen = set[Path]()
    for path in map(Path, paths):
        if path.resolve() in seen:
            raise DataError("this text is named twice, and would count twice", path=path, advice="Name it once.")
        seen.add(path.resolve())
        before = len(found)
        how, documents = _documents(
            path, None if endings and is_text(path) else format_name, options or {}, plain, report
        )
        for document in documents:
            found += sentences_of(document, splitter)
        read_files.append({"file": path.name, "format": how, "sentences": len(found) - before})
    if not found:
        raise DataError("there is no text in what was named", path=str(paths[0]) if paths else None)
    source: dict[str, Any] = {
        "paths": [str(Path(path).resolve()) for path in paths],
        "format_name": format_name,
        "plain": plain,
        "endings": endings,
    }
    source |= {"options": dict(options or {})}
    return Text(tuple(found), tuple(read_files), fingerprint(found), report, source)


def of_documents(documents: Iterable[Document], splitter: Splitter, name: str, how: str) -> Text:
    """The sentences of documents that were read already."""
    found = [sentence for document in documents for sentence in sentences_of(document, splitter)]
    listed = {"file": name, "format": how, "sentences": len(found)}
    return Text(tuple(found), (listed,), fingerprint(found))


def joined(texts: Sequence[Text]) -> Text:
    """Several texts as one, in their order."""
    if len(texts) == 1:
        return texts[0]
    found = tuple(sentence for text in texts for sentence in text.sentences)
    return Text(found, tuple(one for text in texts for one in text.files), fingerprint(found))


def sentences_of(document: Document, splitter: Splitter) -> Iterator[tuple[str, ...]]:
    """The words of each sentence; characters that are none are replaced."""
    split = splitter.split(document)
    words = split.words
    for start, end in split.sentences or ():
        if end > start:
            yield tuple(map(without_surrogates, words[start:end]))


def fingerprint(sentences: Iterable[Sequence[str]]) -> str:
    """SHA-256 over words and sentences."""
    digest = hashlib.sha256()
    for words in sentences:
        digest.update("\x1f".join(words).encode("utf-8", "surrogatepass") + b"\x1e")
    return digest.hexdigest()


# --- Files -----------------------------------------------------------------------------------------------------------


def _documents(
    path: Path, format_name: str | None, options: Mapping[str, str], plain: bool, report: Report
) -> tuple[str, Iterator[Document]]:
    """As what a path is read, and its documents."""
    files.existing(path)
    if path.name.lower().endswith(ARCHIVES):
        advice = "Unpack it, and name what was in it; .gz, .bz2 and .xz of single files are read as they are."
        raise DataError("archives of this kind are not read", path=path, advice=advice)
    if plain or (format_name is None and path.is_file() and is_text(path)):
        chosen = [path] if path.is_file() else text_files(path, every=plain)
        return TEXT, (document for one in chosen for document in _of_text(one))
    if format_name is None:
        try:
            format_name = detect(path).name
        except UnknownFormatError as error:
            texts = text_files(path) if path.is_dir() else []
            if texts:
                _note_others(path, texts, report)
                return TEXT, (document for one in texts for document in _of_text(one))
            if path.is_dir() and not text_files(path, every=True):
                raise
            advice = "Is it plain text? Then use --text (of nestree train: --adapt-text)"
            raise DataError(f"{error} {advice}") from None
        form = get(format_name)
        beside = _texts_beside(path, form)
        if beside:
            corpora = files_of(path, form, Report())
            _note_others(path, [*corpora, *beside], report)
            found = (document for one in corpora for document in _corpus(one, form, options, report))
            return f"{form.name} and {TEXT}", chain(found, (document for one in beside for document in _of_text(one)))
    form = get(format_name)
    return form.name, _corpus(path, form, options, report)


def _note_others(folder: Path, read_ones: Sequence[Path], report: Report) -> None:
    """Notes what is in a folder and below it, and is not read."""
    known = set(read_ones)
    for other in text_files(folder, every=True):
        if other not in known:
            report.note("other file", str(other), "it is neither text nor of the format that is read", "not read")


def _corpus(path: Path, form: Format, options: Mapping[str, str], report: Report) -> Iterator[Document]:
    chosen = {name: value for name, value in options.items() if name in form.options}
    return read(path, form.name, options=chosen, report=report)


def _texts_beside(path: Path, form: Format) -> list[Path]:
    """Plain texts in a folder of corpus files, which are no part of the corpus."""
    if not path.is_dir() or form.whole_folder:
        return []
    corpora = set(files_of(path, form, Report()))
    return [one for one in text_files(path) if one not in corpora]


def _of_text(path: Path) -> Iterator[Document]:
    """A plain text in parts that end with a paragraph, or with a line where paragraphs are very long."""
    lines: list[str] = []
    size = 0
    for _, line in files.lines(path):
        lines.append(line)
        size += len(line) + 1
        if size >= (2 * CHUNK if line.strip() else CHUNK):
            yield Document("\n".join(lines))
            lines, size = [], 0
    if size:
        yield Document("\n".join(lines))
