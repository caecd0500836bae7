"""Records on disk: whole or not at all."""

from netdyno.store.shelf import Store, Summary

__all__ = ["Store", "Summary"]
