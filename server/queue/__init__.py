"""The queue: jobs, who runs next, who has what, and what it costs."""
