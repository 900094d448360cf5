"""Deleting the files of jobs and uploads, wherever they are."""

import shutil
from pathlib import Path

from sqlalchemy import Connection, delete

from server.database.tables import uploads
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


def delete_uploads(connection: Connection, store: Store, upload_ids: list[str]) -> None:
    """Delete uploads, their files before their rows.

    Raises  Problem storage_failed, which has to end the transaction
    """
    for upload_id in upload_ids:
        store.delete_prefix(f"uploads/{upload_id}/")
    connection.execute(delete(uploads).where(uploads.c.id.in_(upload_ids)))


def delete_folder(folder: Path) -> None:
    """Delete a folder with all in it, if it exists.

    Raises  Problem storage_failed
    """
    with told(folder.name):
        if folder.is_dir():
            shutil.rmtree(folder)
