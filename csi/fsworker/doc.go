// Package fsworker does what may hang in a process that can be killed.
//
// A call to a file system that does not answer hangs without limit, and ignores the deadline of its
// caller. So the driver makes none: it asks a hand, a child process of the same program, over a
// socket, and kills it when the time is over. What was under way there is not known then; every
// call has to be one that can be made again.
//
// Its words: a [Pool] has a hand for each lane, and a lane is what hangs together: one file
// system. [Pool.Call] asks; [Serve] answers, in the child. A hand is started by its first call, and
// serves many at a time; after some seconds without a call it is ended. A killed hand may stay, because the kernel does not let it go: then it is
// counted. When too many of a lane do not go, its calls fail at once, and not one more
// process is hung up on it. What has to be tried all the same, [Pool.Alone] asks of a hand of its own.
//
// A Pool may be used from many goroutines, and holds no lock while a call is under way. Hands die with the process
// that started them. Errors keep the kind of mover that they had in the child.
package fsworker
