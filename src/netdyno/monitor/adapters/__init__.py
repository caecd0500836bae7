"""Frameworks that begin and end a watch by themselves: one file each."""
