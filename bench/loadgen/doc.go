// Package loadgen makes the load of one node: all its ranks do the same work at the same time, on directories of parallel file systems and on buckets.
//
// A [Node] takes part in a run. Below each target it makes one directory of its run, datamove-bench-ID, that was not there before; everything lies in it, and [Node.Clean]
// removes it: nothing else is ever written, and nothing that was there is removed. A [Work] is one phase: a [Deed] ("write"), done to a [Tree] of files by every rank.
// [Node.Prepare] opens what is needed, [Node.Begin] waits for the common start and works until all ranks are done or their time is over, and says what they did. A [Result] is
// of one node; package multinode makes phases of many.
//
// What is written does not compress, and no two blocks are equal. It is AES-CTR of the run's seed, the file and the offset, so that a reader of any block knows what it has
// to be. Latencies are of the call alone, and not of making or comparing data. Reads go past the page cache where the file system permits it, and a result says what was done.
// Blocks of 2 MiB and more are in huge pages where the kernel has them, as those of the mover: storage is asked for fewer pieces, and some is twice as fast.
//
// A Node is used by one caller at a time. After kill -9 the directory of the run remains. TestPhases and TestHostile show it on directories and on a real store.
package loadgen
