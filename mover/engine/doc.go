// Package engine does one task in this process: it opens the places of a request,
// locks the target, walks, plans, transfers, keeps the journal, and writes the
// manifest. The CLI calls it; a service or an agent can call it as well.
//
// A task changes nothing before it holds the lock of its target. It ends with a
// [Report] and, when not everything asked for is there, an error of the gravest
// kind. Killed at any instant, the same request goes on where it was: what is
// finished is found by the walks, what was in work by the journal.
//
// It decides nothing about entries (plan does) and moves no bytes (transfer does);
// which place a location is, with what credentials, is the caller's [Opener].
package engine
