// Package roofline says what a cluster can do at most, and what holds it back: a roofline from a declared cluster.
//
// A [Cluster] is a file of the kind Cluster: clients, their NICs, the fabric, the servers of the parallel file system with their NICs, memory and media, an object store
// and a WAN. Each of them is a [Ceiling] of each path that passes it: units, times what one can carry, times the share of that which is ever seen of it. A ceiling is
// declared, or measured alone, and says which. The lowest one is the [Roof] of the path, and binds it.
//
// A [Verdict] is of a target:
//
//   - refuted: a ceiling is below the target. It is named, with the units that are missing.
//   - modelled: no ceiling is, and the scale was not run.
//   - extrapolated: runs at a smaller scale, of at least half of the nodes, make the target likely.
//   - validated: the target was measured, at that scale. Nothing else is called so.
//
// Everything here is pure. Rates are bytes per second, GB is 10^9 bytes.
package roofline
