"""From the files of a partition, as a crash left them, to what a log needs to start."""
