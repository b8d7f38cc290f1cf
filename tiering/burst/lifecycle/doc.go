// Package lifecycle does what package burst decides: it brings a burst up in AWS, stages its data, brings checkpoints home, and takes it down.
//
// A [Manager] has what it needs from others: AWS (burst/aws), the way of the bytes (burst/link), money (tiering/burst/budget), prices, and what keeps records. Each step may be done again at any time: it finds what
// was done, in the record and by the tags in AWS, and goes on. Before anything is asked for that costs money its token is in a record that was kept, so an answer that is lost, or a kill -9, makes nothing twice and
// forgets nothing. Money is reserved before the first byte, is charged as it is used, and where there is none nothing more begins.
//
// What is in AWS is only taken down when all that has to come home is there and verified: a last export is made, its report read, what the bucket has is compared with home, and clients have
// written nothing since. One process works on a burst at a time; the coordinator makes sure of that.
// [Open] makes a leg of what a host knows of tiers; records, money, prices and rules are given by the caller: a worker has them from its coordinator.
// [Manager.Adopt] takes over what AWS has of a burst when its record is lost. TestStory, TestAdopt, TestDies, TestLostAnswers, TestCap, TestDown and TestReaper show it.
package lifecycle
