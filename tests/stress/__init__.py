"""A writer and readers in processes of their own, all at once."""
