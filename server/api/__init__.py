"""The HTTP API: what clients see of jobs. It loads no model and makes no clip."""
