// Package burstbuffer is what Slurm asks of the mover on the host of its controller: the phases of a job with a burst buffer
// (burst_buffer.conf, "burst_buffer/lua"), and the nodes that it gets.
//
// Its words: a job's record is what it has asked for, checked when it was submitted; a deed is one thing that is to be done for it. The
// phases come in this order: [Controller.Process] (at submit), [Controller.Setup], [Controller.In] (while it is pending: onto file systems
// that all nodes see), [Controller.Paths] (what its script finds in its environment), [Controller.Nodes] (which it gets) beside
// [Controller.Before] (onto these nodes), and when it has ended [Controller.Ended] beside [Controller.Out], and [Controller.Teardown]. Beside them [Controller.Keep] renews what pending jobs hold.
//
// Each phase is a process that lives for as long as it takes, may be killed at any moment, and may come again, also after phases behind it. What it
// asks of the mover it asks for by keys and holders that are the job's alone, so it finds what was asked for before; a record is a file
// that is replaced whole. Everything is done as the owner of the job.
//
// What a job has written is never lost because of us: a mark, a task that waits, says from before the job begins until its results are
// on their way that something is to leave, and the hooks on the nodes leave its directory alone as long. What could not be brought away stays on the
// node. Where two nodes bring files of one name to one path, none is replaced: the other one is kept beside.
//
// Runs of a job that is requeued have the same number and are kept apart. What one has left to be brought away is not another one's to stop. A run without
// nodes that were made ready has written nothing, and keeps nothing, however it ends. This holds also when Slurm kills its teardown with its pre_run, and the job
// is set up anew.
//
// It reaches the mover through api alone, and Slurm through Comment alone. TestDeeds shows where it writes, TestKilled that it may be killed.
package burstbuffer
