"""Programs as plain Python, whole and in parts: what every device must agree with."""
