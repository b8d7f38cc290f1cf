// Package policyworker is the worker's side of policies: it does a part of a run ([Tier]), or gives back what one took away ([Undo]).
//
// A plan says what each item was when the policy decided. Each item is looked at before, and once more when it is taken
// away: what is gone, another one by now, or in use is kept, and counts so. What goes because it has a copy goes after that copy was checked.
// A part of a run is repeatable: after a crash it begins anew, and what was done already is kept. Which items are
// taken is decided by tiering/policy and tiering/policy/run. TestRun and TestLook show what is done and what is left alone, the
// script policy.txt of test/script/service whole runs.
package policyworker
