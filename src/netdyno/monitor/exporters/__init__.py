"""Where a journal goes beside the disk: one file each. The room's machinery is `_base`, and who reads along `_following`."""
