"""Checks of a device, of the tool chain and of an environment: the command `doctor`."""
