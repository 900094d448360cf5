"""Training of toyworld, the bundled model, from the procedural world to the shipped folder."""
