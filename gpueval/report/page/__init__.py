"""Results as one HTML file that opens from disk: no network, no server, nothing to install for the reader."""
