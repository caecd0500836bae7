"""Source code to patched source: the edits a person would make, and only those that are certain. No torch."""
