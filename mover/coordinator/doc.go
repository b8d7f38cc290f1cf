// Package coordinator is the coordinator: it takes tasks, gives them to agents, and knows
// what became of them.
//
// # Words
//
// A node is an agent as the coordinator sees it. A lead is a task that an agent works
// on, under an epoch; a batch is a part of it that the lead gave away. A flow is a
// line of queued tasks that wait for the same kind of agent and pay together. A need is
// what an agent must reach to work on a task. A look is a short task that finds out whether
// somebody may read, now, where a replica came from, and lets them in to it.
//
// # Promises
//
// The ledger is the truth. What was answered to a caller is on stable storage before;
// what is in memory can be made of the ledger and of what agents say. The queue may
// lose everything at any time.
//
// One agent at most may publish for a task or a batch: the one whose epoch Confirm
// takes. An agent that is silent for a lease has lost what it had; its leads and
// batches are given to others under higher epochs, and what it says later is refused.
// Nothing is given to two agents at one time but parts of a file, never without the
// lead's knowing.
//
// Of replicas that this service has made, nobody gets a lease, waits for one, or copies it who was not
// found to be allowed, by a look of the last seconds, to read a source of it (mayHave).
//
// The record of a burst, and the money of its team, are changed only for who has the lead of a task on it, which
// is looked at in the change itself; one task works on a burst at a time. The accounts of teams only grow, and
// have the caps of the configuration of the moment. TestRecordFence and TestMoneySurvives show it.
//
// Who calls was found out by door, and is in the context; what they may is asked of
// access for each task and each location. Everything here may be called from many
// goroutines; s.mu is never held across a call that waits, but for the ledger's.
//
// test/cluster shows the promises with real agents and workers.
package coordinator
