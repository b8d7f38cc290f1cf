// Package worker is the process that does a task with the account of its owner. The
// agent starts it with the ids of that account, confined to the task's roots (sandbox), and
// talks to it over a socket (datamove.agent.v1.WorkerService).
//
// What is done for a kind of task is its [Runner], and cmd/datamoved/runners has one for each. A Runner gets a [Job]: the request,
// locations to open, calls to the agent, progress. The runners of copies and removals are here ([Transfer], [Remove]);
// the others are beside what they serve, in packages of tiering. A kind without a Runner is refused.
//
// A worker is a lead, which does one task from its beginning to its end, or a helper,
// which does batches of a task that is led elsewhere. It asks its agent whether it may
// publish (Mine) and when it may move a unit (Turn), and gives batches away (Hand). When the socket ends, the
// process ends: what is not published stays a draft, which the next lead finds.
//
// Secrets come over the socket and stay in memory. A worker trusts its agent, but not
// what it reads from locations. TestRunner shows what a Runner is given,
// test/cluster workers at their work.
package worker
