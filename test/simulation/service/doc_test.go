// Package service simulates the service from a seed: a coordinator with its ledger, agents, their workers, and callers, in one process and in
// virtual time (test/cluster/rig says what of that is real, and what a bubble does not control).
//
// A seed stands for a world: what there is, a list of steps, and the chances of faults. A step is what a caller asks for, or what
// goes wrong with a process, a node, a network, a clock or a disk; a trap has that happen at the very moment of a call or a message.
// Steps belong to domains (domain_test.go), of which a world has some. Between the steps messages are late, lost, or come twice, and calls to backends take their time.
// The fate of a message is drawn from the seed, the agent, the method, and how many there were of it before.
// At the end all faults are mended, and the service has to come to rest.
//
// # What holds after each step
//
//   - each visible file of a target has a content that its name had in one of the sources that went there;
//   - no call fails with an error that has no kind;
//   - what has ended stays as it is;
//   - a replica that is said to be whole has the content of its version; one with a lease is whole;
//   - a checkpoint that was brought somewhere is there as its job saved it once, and verified; a tracker names one that is there; of those that go, two stay;
//   - a checkpoint that is complete stays so, and is one event, while it is the same save;
//   - no user has more tasks than its quota;
//   - a Slurm job that runs has what it requires, or its prolog says why not; its results are on its node, or where they are to go;
//   - a pod with a volume has the whole version of its claim, and a lease on it, or its driver owes the coordinator one.
//
// # What holds at the end
//
//   - each accepted task has ended, and what failed says why;
//   - what is done is there: contents, times of files and directories; nothing temporary is left;
//   - what was submitted twice with one key is one task;
//   - each lease that was given and not dropped is there, and each version has a whole replica;
//   - what several callers were told of a key, a task, a lease or a pin has one order that explains it (porcupine);
//   - each complete save is verified where policies and watches want it, and retention has removed the others;
//   - what one user asks for ends, whatever another one does;
//   - when Slurm jobs are torn down and pods have ended, nothing is held for them, nothing comes to them, and no record is left;
//   - when all is released, nothing is left on the node-local tiers.
//
// # Failures
//
// Worlds run in processes of their own, because some failures end one. A world that fails is made smaller as long as it fails, and the
// test prints the command that has it again: make sim WORLD=7:steps=1,4. The order of goroutines at one instant is the scheduler's, so a small
// world may need some runs.
package service
