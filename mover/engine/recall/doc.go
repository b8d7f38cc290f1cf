// Package recall brings contents back from the archive of a file system where they are, before somebody reads them: hydration.
//
// A file system that has imported the names of a bucket (FSx for Lustre, with a data repository association) has contents in the archive alone. Who reads
// such a file waits for it, one file after the other, and can not be stopped. Asked for all at once, many files overwhelm the server that has the list of
// requests: of 37,000 the last ones never came (aws/aws-parallelcluster issue 6799), and Microsoft's guide for such a Lustre recommends batches of 1,000 to
// 5,000 ("Restore data from Blob Storage"). So here never more than a window of them is asked for and not back.
//
// Files are asked for in the order of their names, as the walk of a place finds them, and each is waited for until it is there. Nothing is recorded: what is back says so itself, and
// the same run goes on where another one stopped. A request that an archive forgets, because its server began anew or what serves it failed, is made again after a while. A file
// that is gone, or another one, is left out. Memory is that of a window.
//
// A run is a few goroutines, which end with it. How a file system is asked is mover.Recaller's. The same is done file by file, while others are copied, by mover/engine/transfer.
// TestRun has archives that are slow, that forget and that refuse, in virtual time; TestRecallInBatches of lustre/fshints asks as a Lustre is asked. It was never run on FSx.
package recall
