"""Looking at a stand-in in a browser: a local server, and a page that needs none."""
