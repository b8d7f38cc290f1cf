// Package query answers questions from the catalog: which files there are of some kind, and how much of what.
//
// Its words: a [Question] is about what lies below a directory of one tree, as far as a choice means it (the clauses and
// expressions of policies, so that what a rule will find can be asked before). The ground is what is known of the directory of a
// file, beside the file ([Ground]). A [Sum] is one line of a table, by [Key]s.
//
// It changes nothing, and holds of what it finds no more than is asked for: what comes in the order of names is not held at all, of another
// order only as much as the limit says, of sums one for each group, which are bounded. Everything may be called from many
// goroutines. The caller decides which users may see what: see Question.Owner. TestQuery compares with a model.
package query
