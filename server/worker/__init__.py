"""The worker: claims a job, makes it clip by clip on one device, and never loses what is made."""
