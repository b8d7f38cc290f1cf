// Package result is what a run of the load generator has measured, in words that are written to a file, and read again.
//
// A [Run] is one call of datamove-bench run: its nodes, and its phases in the order in which they were done. A [Phase] is what all ranks of all nodes did between
// one common start and the end of the last of them: "large write". It has two ends: the first, when the first rank had nothing left to do, until which all were at
// work; and the last, when everything was done, and on stable storage where the phase says so. Rates are of all nodes together, in bytes (and operations) per second;
// times are in seconds, latencies in microseconds. The JSON form is datamove.run/v1; fields are added to it, and none is given another meaning.
//
// Package load and party make records, report and model read them. TestRead shows that what is hostile in a file is refused.
package result
