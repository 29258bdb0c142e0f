"""The nodes of a cluster and the messages between them. It knows nodes, and nothing about queues."""
