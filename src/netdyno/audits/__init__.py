"""Looks at data: one file, one thing that can be wrong with them."""
