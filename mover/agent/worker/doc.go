// Package worker is the process that does a task as the person who asked for it. Its
// agent starts it with that person's ids, confined to the task's roots (acting), and
// talks to it over a socket (datamove.agent.v1.WorkerService).
//
// A worker is a lead, which does one task from its beginning to its end, or a helper,
// which does batches of a task that is led elsewhere. It decides nothing of its own:
// whether it may publish (Mine), when it may move a unit (Turn), and who else moves
// some (Hand) it asks its agent; and for a burst what is known of it, and its money, of which
// nothing is here. When the socket ends, the process ends: what is not
// published stays a draft, which the next lead finds.
//
// Secrets come over the socket and stay in memory. What the agent says is believed;
// what is read from places is not. test/cluster shows workers at their work.
package worker
