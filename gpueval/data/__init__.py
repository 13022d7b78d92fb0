"""Sample files to samples."""
