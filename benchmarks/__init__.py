"""Measuring: golden runs, gates, tuning, and the training of the bundled toy model."""
