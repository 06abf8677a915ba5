"""Work that a store does by itself: the thread that runs it, and where its failures go."""
