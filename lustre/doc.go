// Package lustre has the words of parallel file systems, and one narrow set of questions
// that all of them are asked: how is a file laid out, how much may a project hold, how
// full is each server, is the content of a file on a colder tier, what has changed. The
// words are Lustre's (stripe, OST, pool, project); others answer in them as far as they
// can, and say plainly what they can not.
//
// [Layout] and its components say how the bytes of a file lie on targets. [Advise]
// decides, purely, which layout suits a file, and gives the reason for each number. A
// [System] is one mounted file system with those of the questions ([Layouts], [Quotas],
// [Usage], [HSM], [Changes]) that it has an answer for.
//
// Nothing here talks to a kernel or a server. Package uapi knows the bytes that Lustre
// exchanges, client asks a mounted Lustre, gpfs, cephfs and localfs their own, and detect
// finds out which of them a path belongs to. All values may be shared; they never change.
// TestAdviseHolds states what advice always is, TestTypicalCases what it says of ten cases.
package lustre
