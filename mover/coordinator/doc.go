// Package coordinator is the coordinator: it takes tasks, gives them to agents, and knows
// what became of them.
//
// # Words
//
// A node is an agent as the coordinator sees it. A lead is a task that an agent works
// on, under an epoch; a batch is a part of it that the lead gave away. A flow is a
// line of queued tasks that wait for the same kind of agent and pay together. A need is
// what an agent must reach to work on a task.
//
// # Promises
//
// The ledger is the truth. What was answered to a caller is on stable storage before;
// what is in memory can be made of the ledger and of what agents say. The queue may
// lose everything at any time.
//
// One agent at most may publish for a task or a batch: the one with the epoch that Confirm
// takes. An agent that is silent for a lease has lost what it had; its leads and
// batches are given to others under higher epochs, and what it says later is refused.
// Nothing is given to two agents at one time but parts of a file, never without the
// lead's knowing.
//
// Servers beside the coordinator have datasets, policies, the catalog and bursts. They bring the kinds of their tasks, chores and checks, and ask
// for what they need as an interface; what the coordinator asks of datasets is Datasets.
//
// Package server authenticates the caller and puts it into the context; the rules of authz
// decide for each task and each location. Everything here may be called from many
// goroutines; s.mu is never held across a call that waits, but for the ledger's.
//
// test/cluster shows the promises with real agents and workers.
package coordinator
