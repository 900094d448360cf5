"""Telling clients' servers how jobs ended: signed, kept until delivered, tried again."""
