"""The disk: every system call, every file name, and what guards files that are being changed."""
