// Package p2p has many nodes read one tree once: each reads a part of it from the source, and the
// rest from the others.
//
// Its words: a member is a node that is bringing the tree to itself, a seed is one that has all of it. A piece is a run of
// bytes of the tree, in walk order: some small files, or a part of a large one. All members cut the
// same pieces ([Cut]). The home of a piece is the member that reads it from the source, for all of them ([View.Home]).
//
// [Swarm.Source] wraps the source: a reader of a file gets pieces from their home or from another holder, a
// window ahead of the read position. [Swarm.Target] wraps the target: what is drafted there can be given to
// others before it is published. [Peers] sends and receives the requests between members.
//
// A piece with a home that all members know is read once. A home that does not answer is passed over. The
// next home asks all members that may have the piece before it asks the source. Any failure between members ends in
// reading from the source, never in an error. The swarm makes a copy cheap, and is not needed for it. Each piece has the checksum
// that its sender has computed of it. A file with wrong content is read once more from the source
// itself. Memory is bounded by [Options].
//
// Everything may be called from many goroutines. Nothing is kept on disk: what survives a crash is what the
// target has.
package p2p
