// Package peer carries the pieces of a swarm between nodes: each agent serves, over TLS, what its node has of a tree, and the
// processes that bring the tree to other nodes ask for it.
//
// A request is one POST with the piece that is wanted, its names included: the server needs to know nothing of the tree. It carries a ticket, a secret
// that the coordinator makes for one version of a dataset. The coordinator gives it to the nodes that copy the dataset, so the ticket says what its bearer may have.
// The answer is the bytes and their CRC-64/NVME. The server shows its certificate as an agent: a client talks only to
// the agent that it means.
//
// [Server] has a bounded number of pieces in memory, those that were read from the source for others, and looks for the rest where the
// [Tree] of the ticket says: among what is published, and then at the process that is at work. Everything may be
// called from many goroutines; nothing survives a crash, and nothing has to.
package peer
