// Package slurm is what Slurm's hooks do on a node: before a job, before each of its tasks, and after it.
//
// Its words: a job is a Slurm job. Its directory is the one below jobs/ of the tier that jobs have their scratch on: what was staged
// for the job has a name there, and what it writes there leaves, or goes, when it ends. Hot is what lies on the node; warm is the same data on a
// file system that all nodes see.
//
// [Site.Make] makes the directory of a job that asks for space before anything comes into it, as a project of the file system with a limit, and [Site.Tend] gives such
// projects back when their directories are gone. [Prolog] makes the directory of others, holds what was staged, and gives it names; [Tasks] tells each task where its data is; [Epilog] lets go of
// what was held, and takes the directory away by one rename. [Reconcile] does what an epilog did not: the node went down, or the mover was away.
//
// Nothing that the mover does not do ends in an error: a job without hot data reads warm data, and a node is never taken out of
// service because of the mover ([Fault] is what a node does not do itself: a disk that is read-only, or fails). Everything may be done twice, in any
// order, without what comes before it; names, and the environment that Slurm gives to hooks, are hostile. On doubt nothing is removed.
// It reaches the mover through api alone.
package slurm
