"""Keeping and letting go: what is deleted when, and that it is really gone."""

from server.keeping.erase import erase
from server.keeping.shred import shred
from server.keeping.sweep import Swept, sweep
from server.keeping.work import sweep_work

__all__ = ["Swept", "erase", "shred", "sweep", "sweep_work"]
