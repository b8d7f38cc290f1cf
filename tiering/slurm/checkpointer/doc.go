// Package checkpointer brings the checkpoints of Slurm jobs away from a node while the jobs run, and what is left when they have ended.
//
// Its words: a watch is a task that waits on this node, made by Slurm's controller (slurm.Watch). It says which directory of which
// job to look at, and where its checkpoints go. A save is one state of one checkpoint. The lead of a save is the node that has its mark (the
// file without which no reader takes it for complete). Other nodes of the job have parts of it.
//
// A save that is complete, and has not changed for a while, leaves in this order: what is in it but for its mark; the parts of the other nodes, which
// learn of it by the lead's task; when all these copies are done, and it looks as it did, the mark; then the trackers that
// name it. So a target never shows a mark, or a tracker, of what is not there. A name that was saved again is not copied over the
// complete one during the run; it goes when the job has ended. Nothing of the user's is ever removed.
//
// When the job has ended, complete saves leave as before, incomplete ones as NAME.incomplete-JOB, which no framework takes for a checkpoint, and
// all else under its own name. Then the watch is ended, which lets the job's directory go.
//
// A [Carrier] is one goroutine's. Each copy is a task of the job's owner, found again by a key of the job, the node, the target and the
// save, so it may be killed at any moment; what it remembers spares questions only. It never waits for a copy. Directories are read by
// tiering/checkpoint, so rarely that it takes a hundredth of one core. It reaches the mover through api alone.
package checkpointer
