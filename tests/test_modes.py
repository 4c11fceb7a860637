"""Whoever the umask lets may read what is written, also where it went through a file that was its owner's alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from nestree.adaptation.folder import AdaptFolder
from nestree.data import Document, write
from nestree.model.ensemble import EnsembleNER
from nestree.modes import as_usual
from nestree.training import checkpoints
from tests.model import tiny

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")


@pytest.fixture(params=[0o022, 0o027, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def save(folder: Path) -> None:
    tiny.model(folder.parent).save_pretrained(folder)
    tiny.model(folder.parent).save_pretrained(folder)  # in place of another one


def combine(folder: Path) -> None:
    EnsembleNER([tiny.model(folder.parent), tiny.model(folder.parent)]).save_pretrained(folder)


def stop(folder: Path) -> None:
    checkpoints.save(folder, 3, {"a": torch.zeros(2)}, {"step": 3})


def adapt(folder: Path) -> None:
    folder.mkdir()
    encoder, _ = tiny.encoder(folder.parent)
    AdaptFolder(folder).publish(encoder.save_pretrained, "a card")


def annotate(folder: Path) -> None:
    write([Document("IL-2 binds", id="a")], folder, "brat")


@pytest.mark.parametrize("put", [save, combine, stop, adapt, annotate])
def test_what_is_written_has_the_usual_mode(put: Callable[[Path], None], umask: int, tmp_path: Path) -> None:
    put(tmp_path / "new")
    found = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    modes = {(one.is_dir(), stat.S_IMODE(one.stat().st_mode)) for one in found}
    assert modes == {(True, 0o777 & ~umask), (False, 0o666 & ~umask)}
    assert not [one for one in found if one.name.endswith(".mode")]


def test_links_lead_to_what_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "private").touch(0o600)
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "private")
    as_usual(tmp_path / "folder")
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_a_disk_that_knows_no_modes_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    (tmp_path / "file").touch(0o600)
    as_usual(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
