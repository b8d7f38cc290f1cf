// Package engine runs the real engine in a world made of one seed: random trees,
// random traits of the places, random faults, deaths, and a source that changes while
// it is read. Two tests do it: TestEngine drives plan and transfer, TestTask a whole
// task of mover/engine with its lock, journal and manifest.
//
// A world is run several times, as a person would run one command again, until a
// last run without faults, which has to succeed. What must hold meanwhile:
//
//   - after each step of the target, every visible file has a content that its
//     name had in the source, or at the target before;
//   - each action has exactly one result, and the counters agree with them;
//   - a run that says that everything is there is right;
//   - what the source has is never removed, and nothing is after a failure;
//   - no more work is taken on than the limits allow;
//   - in the end the trees are equal, and no draft, lock or goroutine is left.
//
// Time is virtual, and the faults are drawn from the seed and the call they hit, not
// from the order of calls; the order of goroutines is the scheduler's. So a seed
// that failed nearly always fails again: make sim SEED=n runs it, as a failure says.
//
// What a death of the process leaves of the journal's files is not simulated: the
// journal's own TestKill and test/crash kill real processes.
package engine
