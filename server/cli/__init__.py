"""The server's commands. Each module is imported when its command is called."""
