"""What a broker coordinates: consumer groups and transactions."""
