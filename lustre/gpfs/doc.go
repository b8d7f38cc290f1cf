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
// What changes something is read again by whoever has to know that it holds; a call that is
// not idempotent is sent once. No secret is in an error, and what a server or a program
// said is quoted in one, and cut.
//
// Replies, names and lists are hostile: they have limits, and a reply in which something is
// missing or of another type is an error ([ErrReply]), never a zero: a quota without its
// limit would be no limit. testdata/README.md says where the replies of the tests come from.
// Nothing here has met a real GPFS.
package gpfs
