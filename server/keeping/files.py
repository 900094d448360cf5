"""Deleting the files of jobs, wherever they are."""

import shutil
from pathlib import Path

from server.settings import ServerSettings
from server.store import Store
from server.store.trouble import told


def delete_files(store: Store, settings: ServerSettings, job_id: str) -> None:
    """Delete what a job has in the store and, on this machine, in the folder of unfinished work.

    What is gone already is no error.
    Raises  Problem storage_failed
    """
    store.delete_prefix(f"jobs/{job_id}/")
    delete_folder(Path(settings.work) / job_id)


def delete_folder(folder: Path) -> None:
    """Delete a folder with all in it, if it exists.

    Raises  Problem storage_failed
    """
    with told(folder.name):
        if folder.is_dir():
            shutil.rmtree(folder)
