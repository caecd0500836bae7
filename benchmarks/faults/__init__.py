"""The fault bench: healthy training scripts, faults to put into them, and the truth about each fault."""
