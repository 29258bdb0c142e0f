"""Who the other nodes are, and how to tell them something. Knows nodes; never heard of a queue."""
