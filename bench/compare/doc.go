// Package compare measures datamove beside its peers: the same data, the same
// durability, one interleaved run.
//
// It owns these words: a [Scenario] is one kind of work ("100,000 small files on
// a disk"); a tool is a program that can do it, datamove being one of them; a
// [Sample] is one run of one tool; a [Score] is the median of a tool's samples
// with their spread, and the median of datamove's ratios to them with its interval.
// Tools take turns, each round in an order by chance, so that
// what else goes on in the machine hits all of them, and what one run leaves behind
// is not always the same tool's burden; a ratio is of one round. Each run writes to a
// new path, and on a disk its time includes "sync -f"; after each run the target is
// counted, so that a tool is not fast by leaving something out.
//
// A scenario with a name that begins with "ceiling-" asks what the storage can do without the
// work of a mover. Its other tools are load generators, which write as many bytes as
// are copied and read them. A mover that reaches 90 % of them leaves little to be had.
//
// It promises nothing under concurrency: one comparison at a time, nothing else on
// the machine. What it made is removed when it ends, also when it is interrupted;
// after kill -9 a folder datamove-bench-* remains where it worked. It does not
// judge: targets are in the issue, and the ratios beside them in RESULTS.md.
// TestCompare and TestCeiling run real tools over a small data set, TestScore and
// TestBootstrap the arithmetic; TestCommands holds how tools are called, also those
// that are rarely installed.
package compare
