"""The program `vidgen`: the only part that prints, reads the environment and listens to Ctrl-C."""
