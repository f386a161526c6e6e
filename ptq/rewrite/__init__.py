"""Graph to graph, one rewrite a file."""
