"""Properties that hold whatever hypothesis comes up with."""
