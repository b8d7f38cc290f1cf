// Package workload says what phases a run has: which work, on which files, in which order.
//
// A suite is a row of phases on trees of its own: "large" writes, reads, verifies and unlinks one large file of each rank. [Works] makes those of some suites in the sizes that were
// asked for; each is done as often as it is to be repeated, and by as many nodes as are named, the fewest first, so that a scaling curve comes of one run. Nothing here touches a file:
// what a run would do can be looked at first. TestWorks holds every suite to what a node takes.
package workload
