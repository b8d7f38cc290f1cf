// Package lifecycle does what package burst decides: it brings a burst up in AWS, stages its data, brings checkpoints home, and takes it down.
//
// A [Leg] has what it needs from others: AWS (burst/amazon), the way of the bytes (burst/wan), money (tiering/burst/budget), prices, and a shelf that keeps records. Each step may be done again at any time: it finds what
// was done, in the record and by the tags in AWS, and goes on. Before anything is asked for that costs money its token is on the shelf, so an answer that is lost, or a kill -9, makes nothing twice and
// forgets nothing. Money is reserved before the first byte, is charged as it is used, and where there is none nothing more begins.
//
// What is in AWS is only taken down when all that has to come home is there and verified: a last export is made, its report read, what the bucket has is compared with home, and clients have
// written nothing since. One process works on a burst at a time; who makes sure of that is the shelf, or the service.
// [Open] makes a leg of what a host knows of tiers; records, money, prices and rules are given by who calls: the command from its files, a worker from its coordinator.
// TestStory, TestDies, TestLostAnswers, TestCap, TestDown and TestReaper show it.
package lifecycle
