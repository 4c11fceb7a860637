"""Models and encoders on the Hugging Face hub: files come and go; what is in them is the business of others.

huggingface_hub has a mixin class for this. It is not used here: it writes a config.json and a card of its own beside
ours, one after the other into the folder that people read, and remembers the arguments of every ``__init__``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree import __version__
from nestree.model.errors import ModelError, NoModelError, first_line

if TYPE_CHECKING:
    from huggingface_hub import HfApi


def is_hub_name(name: object) -> bool:
    """Whether this can be a name on the hub: ``name`` or ``org/name``."""
    return isinstance(name, str) and re.fullmatch(r"(?a:\w[\w.-]*)(/(?a:\w[\w.-]*))?", name) is not None


def find_folder(name: str | PathLike[str], files: Sequence[str], *, advice: str, **options: Any) -> Path:
    """A folder as it is; or the one into which files of that name on the hub are downloaded, if they are not there yet.

    Args:
        name: a folder, or a name on the hub.
        files: names of files, or patterns of names; no others are downloaded.
        advice: what to do if there is nothing of this name.
        options: of ``snapshot_download``: revision, token, cache_dir, local_files_only.

    Raises:
        ModelError: there is nothing of this name, or a folder, of which a revision is wanted.
    """
    path = Path(name)
    if path.is_dir():
        if options.get("revision") is not None:
            what = f"this is a folder here, which has no revision {options['revision']!r}"
            raise ModelError(what, path=path, advice="Leave the revision out, or work where no folder has this name.")
        return path
    if path.is_file():
        raise ModelError("this is a file, not a folder", path=path, advice=advice)
    if not is_hub_name(name):
        raise NoModelError("there is no such folder", path=path, advice=advice)
    return _download(str(name), files, advice=advice, **options)


def _download(name: str, files: Sequence[str], *, advice: str, **options: Any) -> Path:
    from huggingface_hub import errors, snapshot_download
    from huggingface_hub.utils.tqdm import tqdm

    class PatientBar(tqdm):
        def __init__(self, *values: Any, **settings: Any) -> None:  # no bar where all is there already
            super().__init__(*values, **{"delay": 2, **settings})  # type: ignore[no-untyped-call]

    def fault(what: str, instead: str | None = None) -> ModelError:
        return ModelError(f"there is no such folder, and {what}", path=name, advice=instead or advice)

    try:
        found = snapshot_download(
            name,
            allow_patterns=list(files),
            library_name="nestree",
            library_version=__version__,
            tqdm_class=PatientBar,
            **options,
        )
    except errors.GatedRepoError:
        asks = f"Accept its terms at https://huggingface.co/{name}, and log in: hf auth login"
        raise fault("the hub asks for permission to read the model of this name", asks) from None
    except errors.RepositoryNotFoundError:
        raise fault("the hub has no model of this name, or a private one (hf auth login)") from None
    except errors.RevisionNotFoundError:
        raise fault(f"on the hub, the model of this name has no revision {options.get('revision')!r}") from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        why = "may not be asked" if options.get("local_files_only") else "cannot be reached"
        raise fault(f"the hub {why}; nothing of this name has been downloaded before") from None
    except Exception as error:  # whatever else the hub's library and those below it raise
        raise fault(f"it cannot be downloaded from the hub ({first_line(error)})") from error
    return Path(found)


def upload(
    folder: str | PathLike[str],
    name: str,
    *,
    card: str,
    marker: str,
    replaced: Sequence[str],
    message: str,
    revision: str | None = None,
    token: str | bool | None = None,
    private: bool | None = None,
) -> str:
    """Sends a folder to the hub in one commit, and returns the address of that commit.

    Args:
        folder: all files in it are sent.
        name: where to; it is made if it does not exist.
        card: the file that is not sent if another one stands there,
        marker: unless this text is in it.
        replaced: names of files, or patterns, that are taken away there if they are not in the folder.
        message: of the commit.
        revision: the branch.
        token: of somebody who may write there; the one of ``hf auth login``, if None.
        private: whether only the owners can see it, if it is new.
    """
    from huggingface_hub import HfApi

    if not is_hub_name(name):
        raise ModelError("this cannot be a name on the hub", path=name, advice="Name it like this: org/name")
    api = HfApi(token=token, library_name="nestree", library_version=__version__)
    try:
        name = api.create_repo(name, private=private, exist_ok=True).repo_id
        commit = api.upload_folder(
            repo_id=name,
            folder_path=Path(folder),
            commit_message=message,
            revision=revision,
            ignore_patterns=[card] if _is_own(api, name, revision, card, marker) else None,
            delete_patterns=list(replaced),
        )
    except Exception as error:  # whatever the hub's library and those below it raise
        what = f"the model cannot be sent to the hub ({first_line(error)})"
        advice = "Be online, and log in with a token that may write there: hf auth login"
        raise ModelError(what, path=name, advice=advice) from error
    return str(commit.commit_url)


def _is_own(api: HfApi, name: str, revision: str | None, card: str, marker: str) -> bool:
    """Whether somebody wrote this file themselves."""
    from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError

    try:
        found = api.hf_hub_download(name, card, revision=revision)
    except (EntryNotFoundError, RevisionNotFoundError):
        return False
    return marker not in Path(found).read_text(encoding="utf-8", errors="replace")
