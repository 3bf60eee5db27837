"""The Gaussian mixture."""
