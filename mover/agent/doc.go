// Package agent is the node's side of the service: it says what the node reaches,
// takes leads and batches from the coordinator, and has them done by processes that
// act as the users who asked (worker).
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
// it puts its leads back, with what they have done kept for whoever goes on.
//
// What it stages as root is closed to who was not let in, before the coordinator hears that it is whole,
// and can not be changed by its owner (package shelf); where that can not be, the record of the replica says so.
// To other nodes it gives of a replica what the user of their swarm could read of it on this one.
//
// Who may ask for what was decided by the coordinator; as whom it is done is decided
// here, by the name service of this node. test/cluster shows agents at work.
package agent
