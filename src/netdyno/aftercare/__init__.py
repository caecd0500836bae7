"""After the release: statistics renewed, drift watched, odd inputs noticed, bad cases learned, each gated and with undo."""
