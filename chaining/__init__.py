"""Many clips as one long video: how clips hand over to each other, and what that does to them."""
