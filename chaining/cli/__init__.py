"""The commands of long video."""
