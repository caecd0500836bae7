"""Paired runs, parity and quality: how a change is tried."""
