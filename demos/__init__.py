"""Runnable examples: thin clients of the public interface."""
