"""Jobs over HTTP: a durable queue, an API process that loads no model, and workers that do."""
