// Package gpfs asks IBM Storage Scale (GPFS): by the REST API of its GUI, and by its mm
// commands. It owns what their words mean here: a project is a fileset, a pool is a storage
// pool, copies are the mirrors of a layout; GPFS stripes every file over all disks of its
// pool, so there is nothing else to lay out.
//
// [Answer] gives a mounted file system its answers to the questions of package lustre.
// Below it stand [Client], which speaks scalemgmt/v2 over TLS, and [Commands], which runs
// programs of /usr/lpp/mmfs/bin and reads what they print with -Y. [Rule] and [WriteRules]
// say what mmapplypolicy shall look for; [Commands.Find] runs it and reads its lists,
// [Commands.Move] has files moved.
//
// All types may be used by many goroutines. Nothing is cached: each answer was asked for.
// The GUI, though, answers out of what it has collected: what was changed is read again until
// it is seen, and a fileset is not believed that mmlsattr contradicts. A call that is not
// idempotent is sent once. When its caller goes, a job is cancelled. A command that hangs is
// killed with all that it has started, and left behind if that does not help. No secret is
// in an error or an argument, and what a server or a program said is quoted in one, and cut.
//
// Replies, names and lists are hostile: they have limits, and a reply in which something is
// missing or of another type is an error ([ErrReply]), never a zero: a quota without its
// limit would be no limit. Nothing here has met a real GPFS: testdata/README.md says which
// replies and outputs of the tests have the shape of recorded ones, and which do not.
package gpfs
