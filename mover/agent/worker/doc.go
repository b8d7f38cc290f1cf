// Package worker is the process that does a task with the account of its owner. The
// agent starts it with the ids of that account, confined to the task's roots (sandbox), and
// talks to it over a socket (datamove.agent.v1.WorkerService).
//
// A worker is a lead, which does one task from its beginning to its end, or a helper,
// which does batches of a task that is led elsewhere. It asks its agent whether it may
// publish (Mine) and when it may move a unit (Turn), and gives batches away (Hand). It asks the agent
// for the record and the money of a burst, too, and keeps neither. When the socket ends, the
// process ends: what is not published stays a draft, which the next lead finds.
//
// Secrets come over the socket and stay in memory. A worker trusts its agent, but not
// what it reads from locations. test/cluster shows workers at their work.
package worker
