// Package fabric is the ground of the scale model: a cluster of agents on one
// machine, each in a network namespace of its own behind a link of a known speed.
//
// A [Rig] owns the namespaces: a switch with a bridge, a hub for the coordinator and for
// the S3 servers, whose link is not shaped, and [Node]s whose links are, in both
// directions, by a token bucket. A [Process] runs in one of them. A [Load] is a way
// to move bytes from the hub to all nodes at once, [Ceiling] what iperf3 gets
// through the same links, and a [Row] compares the two. A [Measure] taken while the
// CPUs were less than 15 % idle says of itself that it is invalid: then the machine
// was measured, and not the links.
//
// Every address is in a namespace that a rig has made. What a rig makes bears the number and
// the start of its process, so that the next one finds what a dead one has left, and
// sweeps it; its processes die with it. Everything ends with its context. It needs root,
// ip and tc of iproute2, and iperf3; [Available] says what is missing.
//
// What a machine of many cores and a fast network does for nothing would cost this one more
// than the mover does, so it is out of the way: what the nodes write is memory that was touched
// before (reserve), packets are large ones, and TCP sets no timer for each of them.
//
// A [WAN] is a way between the hub and a node whose rate and delay change while it is used:
// one path fails, another one is taken.
//
// What is measured on one machine stays there: the model tells whether the mover
// keeps links busy, not how fast a cluster is. TestSmoke moves real bytes with the real
// binary, TestFailOverOfUpload has its path fail in the middle, TestSweep kills a rig; the command model prints the table.
package fabric
