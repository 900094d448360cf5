"""What keeps the repository in order: set-up, and tables in its pages."""
