"""The gateway: one process that serves a whole cluster over HTTP. It speaks to nodes by `disque.client` only."""
