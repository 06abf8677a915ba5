"""Programs that kstore is measured against."""
