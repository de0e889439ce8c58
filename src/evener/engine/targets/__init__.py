"""Where programs run: a module for each kind of device and of device set."""
