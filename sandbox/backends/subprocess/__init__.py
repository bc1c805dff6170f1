"""The subprocess backend: boxes made of the kernel's own walls, without a daemon and without root."""
