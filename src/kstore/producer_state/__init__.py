"""What a log knows of its producers and their transactions, in memory and in snapshots."""
