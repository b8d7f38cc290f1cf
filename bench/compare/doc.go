// Package compare measures datamove beside its peers: the same data, the same
// durability, one interleaved run.
//
// It owns these words: a [Scenario] is one kind of work ("100,000 small files on
// a disk"); a tool is a program that can do it, datamove being one of them; a
// [Sample] is one run of one tool; a [Score] is the median of a tool's samples
// with their spread. Tools take turns, each round in an order by chance, so that
// what else goes on in the machine hits all of them, and what one run leaves behind
// is not always the same tool's burden; a ratio is of one round. Each run writes to a
// new place, and on a disk its time includes "sync -f"; after each run the target is
// counted, so that a tool is not fast by leaving something out.
//
// It promises nothing under concurrency: one comparison at a time, nothing else on
// the machine. What it made is removed when it ends, also when it is interrupted;
// after kill -9 a folder datamove-bench-* remains where it worked. It does not
// judge: targets are in the issue, and the ratios beside them in RESULTS.md.
// TestCompare runs real tools over a small data set, TestScore the arithmetic.
package compare
