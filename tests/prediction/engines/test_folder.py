"""The folder that shards are written to, when a stop comes at a bad moment."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from nestree.prediction.engines.folder import OutputFolder
from nestree.prediction.engines.shards import Shard
from tests.prediction.engines.cases import attempts

SHARD = Shard("in.parquet", "parquet", "in.parquet", 0, "")


def test_a_stop_right_after_an_attempt_was_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = os.mkdir

    def stopped(path: Any, *arguments: Any, **others: Any) -> None:
        make(path, *arguments, **others)
        if ".attempt-" in str(path):
            assert attempts(tmp_path)
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "mkdir", stopped)
    with pytest.raises(KeyboardInterrupt), OutputFolder(tmp_path).attempt(SHARD):
        pytest.fail("the stop was dropped")
    assert not attempts(tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("Bad file descriptor")])
def test_a_stop_while_an_attempt_is_taken_away_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    remove, stops = shutil.rmtree, [error]

    def stopped(path: Any, **others: Any) -> None:
        if stops:
            raise stops.pop()
        remove(path, **others)

    monkeypatch.setattr(shutil, "rmtree", stopped)
    within = OutputFolder(tmp_path).attempt(SHARD)
    within.__enter__().write_text("something")
    assert attempts(tmp_path)
    with pytest.raises(type(error)):
        within.__exit__(None, None, None)
    assert not attempts(tmp_path)
