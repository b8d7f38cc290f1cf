// Package multinode has many nodes make one load from a common start.
//
// One process conducts, in [Conduct]; the others [Join] it over TCP, and listen to nothing themselves. Both know a secret. From it each makes the same key, shows it to the other over
// TLS 1.3, and rejects a peer with another one. A stranger can neither command a node nor send figures that are not measured. Credentials of stores are never sent:
// a node has its own.
//
// Before each phase the conductor asks every node for its clock, several times, and takes the shortest round trip. A start is told in the clock of each node, which runs evenly
// whatever is done to the time of day there. How far apart nodes began is measured and in the record, with its error. A node that is silent, or loses its connection, ends the
// run: the others stop, and remove what the run has made. A node without its conductor does the same by itself.
//
// A run on one host is the same, without a connection. TestRun, TestLost and TestStranger show it.
package multinode
