// Package rig runs the whole service in one process and in virtual time: the
// coordinator with its ledger and its queue, agents, and their workers. Tests of
// test/cluster are written with it, those of what asks the service for something
// (tiering/dataset/datasetclient, tiering/slurm/burstbuffer), and a simulation from seeds can be.
//
// # What is real
//
// The code of coordinator, agents and workers, gRPC between them, Badger below the
// ledger and the journals, and the file system of the trees.
// Connections are in memory. A worker is a goroutine that runs worker.Run, where a
// node has a process: it has no account of its own, and nothing confines it.
//
// # Time
//
// [Bubble] runs a test in a bubble of testing/synctest. The clock starts at the time
// of the machine, because files have times, and goes on when every goroutine of the
// bubble waits for something in the bubble. So a wait costs nothing, a limit of bytes
// per second is exact, and a busy machine changes no outcome. What waits for a mutex
// or in a system call holds the clock: a lock that is held while its holder waits
// for time stops the test.
//
// [Cluster.Until] is the one way to wait.
//
// # Death
//
// [Cluster.Kill] and [Cluster.Crash] wait until all is at rest (synctest.Wait), and
// take an image of the state then. What was killed does nothing more: each call of a
// place, each message and each answer fails. When its goroutines have ended, its
// state directory is made what the image says, so that nothing that it did while it
// unwound is left of it. Drafts and lock files stay where they were. A death in the
// middle of a system call is not simulated; test/crash kills processes.
//
// [Cluster.KillAgent] kills an agent with its workers. Of the agent itself nothing gets
// to the coordinator any more; what it does to the gates of a cache while it unwinds is
// not held back.
//
// A worker that its own agent ends with Stop(0) is dead in the same way, but for its
// journal, of which there is no image: the agent may end it in the middle of a write.
//
// [Cluster.Refuse] has what workers write below a directory fail, as where there is no
// room, or no right to.
//
// [Cluster.PowerCut] leaves of the ledger what was synced last, and of its logs some pages of what was written since then. Journals of workers and the
// trees of tiers keep all: of those test/power shows a real cut.
//
// A [Weather] may have a worker die in the middle of a call or a message; the state of that one is what it wrote until then.
//
// [Cluster.SetClock] sets the clock by which the coordinator decides. Epochs, and what agents and callers measure, go by that of the bubble.
//
// [Cluster.Sleep] holds each call and each message of a worker until [Cluster.Wake].
//
// # What a bubble does not control
//
// The order in which goroutines run at one instant, the choice of select among what is
// ready, the order of maps, random numbers of the product (ids, jitter), and the
// goroutines of Badger, which run in the bubble but in an order of
// their own. An instant of virtual time has therefore many orders, and a test has to
// hold in each of them. The times that the kernel gives to files are those of the
// machine: the clock of the bubble begins with them and then goes its own way, so a file
// may be of the future. A test that compares the two sets the times of its files.
//
// # Processes
//
// [Processes] is the same cluster in real time, with workers that are processes, for
// tests of accounts, of seals and of real servers (test/system/service). Options.Real is
// real time with goroutines, for what has real mounts beside it (csi).
package rig
