// Package recall brings contents back from the archive of a file system, in place, before a program reads them: hydration.
//
// A file system that has imported the names of a bucket (FSx for Lustre, with a data repository association) has contents in the archive alone. A reader of
// such a file waits for it, one file after the other, and can not be stopped. Many requests at once overwhelm the server that has the list of
// requests: of 37,000 the last ones never came (aws/aws-parallelcluster issue 6799). Microsoft's guide for such a Lustre recommends batches of 1,000 to
// 5,000 ("Restore data from Blob Storage"). So a run has at most one window of files requested and not yet back.
//
// Files are requested in the order of the walk, and a run waits until each is back. Nothing is recorded: a file that is back shows it by its own state, and
// a new run continues where another one stopped. A request that an archive has lost, after a restart or a failure of its server, is made again after a while. A run
// leaves out a file that is gone or has been replaced. Memory is that of a window.
//
// A run is a few goroutines, which end with it. mover.Recaller sends the requests to a file system. mover/engine/transfer does the same file by file, while it copies others.
// TestRun has archives that are slow, that forget and that refuse, in virtual time; TestRecallInBatches of lustre/fshints sends requests to a Lustre. It was never run on FSx.
package recall
