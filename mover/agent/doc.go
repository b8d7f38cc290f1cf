// Package agent is the node's side of the service: it says what the node reaches,
// takes leads and batches from the coordinator, and has them done by processes under
// the accounts of the owners of the tasks (worker).
//
// # Words
//
// A session is a lead or a batch that the coordinator gave this agent, under an
// epoch. A process is one worker; it serves one task. A turn is the right of a
// process to move one unit now; the agent gives turns fairly among tasks (share).
//
// # Promises
//
// The agent keeps nothing on disk of its own and decides nothing about tasks: the
// coordinator's word counts. When it can not be reached, work goes on until something
// is to be published, and waits there. When the agent ends, its processes end. Stopping
// it puts its leads back, with what they have done kept for the next lead.
//
// A replica that it stages as root is closed to accounts that were not let in, before the coordinator hears that it
// is whole. Its owner can not change it (package replicadir). Where that can not be, the record of the replica says so.
// To other nodes it gives of a replica what the user of their swarm could read of it on this one.
//
// The coordinator decides which requests are allowed. The agent takes the ids of an account
// from the name service of this node. test/cluster shows agents at work.
package agent
