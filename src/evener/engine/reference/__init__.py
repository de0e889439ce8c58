"""Programs as plain Python, whole and in parts: the reference for every device."""
