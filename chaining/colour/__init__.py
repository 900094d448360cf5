"""Colour between clips: Oklab, the map that undoes a clip's drift, and how that map is found."""
