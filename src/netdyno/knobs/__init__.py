"""Choices of how a model learns: one file, one knob."""
