"""Servers that a package can be put on, one file each: ours in this process, others by a script or a layout of files that is written for them."""
