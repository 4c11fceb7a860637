"""``benchmarks.pubmed``: which abstracts are read, which are left out, and in what order."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from benchmarks import pubmed
from nestree.data import Document, write

LONG = " ".join(["The cells were then kept at room temperature for about one more hour."] * 4)
ENTITY = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'


def article(title: str, *abstract: str, language: str = "eng", tag: str = "Abstract") -> str:
    parts = "".join(f'<AbstractText Label="A">{part}</AbstractText>' for part in abstract)
    whole = f"<{tag}>{parts}</{tag}>" if abstract else ""
    inside = f"<ArticleTitle>{title}</ArticleTitle>{whole}<Language>{language}</Language>"
    return f"<PubmedArticle><MedlineCitation><Article>{inside}</Article></MedlineCitation></PubmedArticle>"


def medline(path: Path, *articles: str, before: str = "") -> Path:
    path.write_bytes(gzip.compress(f"{before}<PubmedArticleSet>{''.join(articles)}</PubmedArticleSet>".encode()))
    return path


def corpus(path: Path, *sentences: str) -> Path:
    write([Document(one) for one in sentences], path)
    return path


def test_titles_and_abstracts_are_read_as_a_corpus_would_write_them(tmp_path: Path) -> None:
    found = pubmed.abstracts(
        medline(
            tmp_path / "one.xml.gz",
            article("NF-\u03baB in <i>\u03bb</i> T\u2010cells.", "TNF-\u03b1 <i>and</i> IFN\u2212\u03b3.", LONG),
            article("[Translated.]", LONG),
            article("Short.", "Nothing much."),
            article("None."),
            article("For laymen.", LONG, tag="OtherAbstract"),
            article("Auf Deutsch.", LONG, language="ger"),
            article("In two.", LONG, language="eng</Language><Language>fre"),
        )
    )
    whole, translated, *others = found
    assert whole == f"NF-kappaB in lambda T-cells. TNF-alpha and IFN-gamma. {LONG}"
    assert translated == LONG
    assert not any(others)
    assert len(others) == 3  # what is not in English alone does not even count


def test_entities_of_xml_are_refused(tmp_path: Path) -> None:
    bad = medline(tmp_path / "bad.xml.gz", article("Title", "&x;", LONG), before=ENTITY)
    with pytest.raises(ValueError, match="declares the entity 'x'"):
        list(pubmed.abstracts(bad))


def test_what_shares_fifty_letters_with_a_corpus_is_found_whatever_stands_between_them() -> None:
    sentence = "Activation of NF - kappa B by the IL - 2 receptor was seen in human T cells only ."
    overlap = pubmed.Overlap([sentence])
    letters = "".join(filter(str.isalnum, sentence))
    assert all(f"{LONG} {letters[at : at + 50]} {LONG}" in overlap for at in range(len(letters) - 49))
    assert not any(letters[at : at + 49] in overlap for at in range(len(letters) - 48))
    assert f"{LONG} {sentence.replace(' - ', '-').upper()} {LONG}" in overlap
    assert LONG not in overlap
    assert "Activation of NF-kappa B by the IL-2 receptor" not in overlap


def test_abstracts_that_read_like_the_corpus_come_first_and_what_it_shares_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    near = [
        f"Expression of cytokines by lymphocytes number {n}. " + "Lymphocytes make cytokines. " * 15 for n in range(3)
    ]
    far = [f"Prices of houses number {n}. " + "Houses have higher prices in towns. " * 10 for n in range(3)]
    shared = "This very sentence about lymphocytes and cytokines is annotated in the dev set, too. " + LONG
    raw = medline(tmp_path / "all.xml.gz", *(article("A.", one) for one in [*far, *near, *near, shared]))
    train = corpus(tmp_path / "train.jsonl", *["Lymphocytes make many cytokines ."] * 8)
    dev = corpus(tmp_path / "dev.jsonl", shared.split(". ")[0])
    output = tmp_path / "raw.txt"
    command = ["pubmed", str(raw), "--like", str(train), "--not-in", str(train), str(dev), "--words", "150"]
    monkeypatch.setattr(sys, "argv", [*command, "--output", str(output)])
    assert pubmed.main() == 0  # each text once, though the file has some of them twice
    texts = output.read_text(encoding="utf-8").strip().split("\n\n")
    assert len(texts) == len(set(texts)) == 3
    assert all("Lymphocytes make cytokines" in one for one in texts)
    assert "7 abstracts; 1 share text" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"not compressed", "the compressed file is broken"),
        (gzip.compress(b"<PubmedArticleSet/>"), "there is no English abstract of 40 words in these files"),
        (None, "there is no such file"),
    ],
)
def test_files_that_are_no_medline_are_errors_and_nothing_is_written(
    tmp_path: Path,
    content: bytes | None,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, output = tmp_path / "one.xml.gz", tmp_path / "raw.txt"
    if content is not None:
        file.write_bytes(content)
    train = corpus(tmp_path / "train.jsonl", "Lymphocytes make many cytokines .")
    command = ["pubmed", str(file), "--like", str(train), "--not-in", str(train), "--output", str(output)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        pubmed.main()
    assert ended.value.code == 1
    assert says in capsys.readouterr().err
    assert not output.exists()
