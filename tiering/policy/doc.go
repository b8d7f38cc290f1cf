// Package policy reads rules of what is to happen to files on the tiers, and decides by them. It decides and does nothing.
//
// # Words
//
// A policy is one YAML document of the kind TierPolicy; its rules are looked at in their order, and the first that
// matches a file gives the verdict: an action, and a reason. A file that no rule matches is kept. A match is a set of clauses, all of which hold (with
// any: true at least one does); clauses are native and take some nanoseconds. What they can not say is said in CEL (cel.dev), in
// where and in weight, as the last of the clauses that are looked at; its cost has a limit. A class is a named match that rules refer to.
//
// The age of a file is the time since the latest of: its atime, mtime and ctime, when it was first seen, when it was last staged,
// and when a lease on it ended: [Facts.Used] says which. Nothing is removed by its atime alone.
//
// # Promises
//
//   - What is not understood is refused, with line and column: an unknown word, a wrong type, a field that an action does not have,
//     an expression that does not type-check, or may cost too much. [Read] says all that is wrong at once.
//   - Decisions are pure: of the same facts, at the same time, by the same text they are the same.
//   - An expression that fails on a file decides nothing about it: the verdict is keep, and says why.
//
// A [Judge] is for one goroutine; all else does not change once it is made. Which facts there are and whether they are fresh, and
// doing what was decided, is left to others. TestRules reads as the manual of clauses, TestRefused as that of what is refused.
package policy
