"""Source code -> finding: one file is one wrong form; nothing is run."""
