// Package slurm runs a real Slurm for tests: slurmctld, munged, and nodes with a slurmd each.
//
// A [Cluster] is a tree of processes in namespaces of its own. The controller and each node are machines: with processes, a host
// name and a network (joined by a bridge that leads nowhere), and with /var, /tmp, /run and /local_nvme of their own. All see the
// same /etc, /home and /project, which stands for the parallel file system, and the programs and devices of this machine;
// nothing else of it. What they write is in memory, and gone with them. A node that is killed keeps its disks, but for /run.
// Slurm finds what is its own where a site has it: /etc/slurm, /run/munge. Users are ordinary ([Anna], [Ben], [Carl]).
//
// Everything ends when the process does that has started it, however that ends; nothing is left on the machine, and nothing
// listens outside of the namespaces. Several clusters run side by side. A test may ask one from many goroutines, and starts and ends
// machines and programs from one. Tests look at files of a machine by [Cluster.Path], run programs there by [Cluster.On], and
// start ours beside those of Slurm by [Cluster.Beside].
//
// In CI one cluster of three nodes is started, and tests use it one after the other: what datamove does in a Slurm, and what sbatch says. What has a
// cluster of its own runs with DATAMOVE_SOAK=1, as make e2e-slurm has it: facts of Slurm alone, crashes of its daemons, figures.
//
// The tests of this package hold what our hooks believe of Slurm (22.05 of Debian 12). In short:
//
//   - job_process, setup, data_in, paths, pre_run, then Prolog, TaskProlog, the script, then post_run, data_out, teardown; Epilogs
//     are beside the last three, PrologSlurmctld beside pre_run, and nobody waits for them (TestOrder). An array has all but the
//     first for each task (TestArray).
//   - Only setup is told who the user is; phases have the job's id, and its script in a file that only SlurmUser can read, with a
//     NUL at its end (TestOrder, TestEnvironment, TestJobSubmit). A directive counts before the first command, and is any line
//     that begins with its word, also within a longer one; capacity= in it is Slurm's, and is refused without a pool (TestSubmit).
//   - From setup on Slurm has replaced %j, %A, %a, %d, %u and %x in directives, %% by %, and all else that begins with % by
//     nothing (TestSymbols); %A is 0, and %a is 4294967294, of a job that is no array. The script as it was submitted is where job_process has
//     seen it, for each task of an array too (namesInPaths of TestJobs).
//   - pools is called every 30 seconds, whatever jobs there are (TestDeploy).
//   - salloc and srun have the phases of their burst buffer (--bb), and tell slurmctld their comment, but none of their environment (TestDeploy).
//   - Phases run as SlurmUser in / with what slurmctld was started with: no HOME, no variable of the job. Prolog and Epilog run as
//     root in / without PATH and HOME, PrologSlurmctld and EpilogSlurmctld so as SlurmUser, with the comment as the user has
//     written it, newlines too (TestEnvironment).
//   - job_process, paths and get_status run within slurmctld, which does nothing else meanwhile (TestInside).
//   - A phase returns one value, or a string as the second: nil there is a failure (TestSubmit). At its time limit it is
//     killed, and has failed; but when the command that it waits for dies first, and it says success, the job goes on
//     (TestTimeouts). So it must not say success unless the command has, and should end before.
//   - data_in that fails holds the job, with its text in Reason and SystemComment, whole, and is called again by a release with
//     Flags=TeardownFailure (TestStageInFails). pre_run that fails has it wait two minutes (TestPreRunFails). After post_run that
//     fails there is no data_out (TestPostRunFails). After data_out that fails the job is done; without TeardownFailure it stays
//     in STAGE_OUT (TestStageOutFails, TestStageOutStays).
//   - paths that fails has the job held by the administrator (JobHeldAdmin), without our text and without a teardown. Released, it has
//     been seen to wait without end; cancelled, it is torn down, or, when Slurm kills that with the rest of the job, as it does on
//     a busy machine, when slurmctld starts anew (TestDeploy). So paths should fail only when pre_run could not.
//   - Prolog and Epilog that fail drain the node, PrologSlurmctld does not (TestFailedHooks); a slow Prolog is no harm
//     (TestSlowProlog).
//   - Nothing is sure to be called: no Epilog on a node that died (TestNodeDies), no second Prolog where a requeued job comes back
//     at once (TestRequeue), no teardown of a job that is cancelled in pre_run (TestCancel) or that a crash of slurmctld has
//     forgotten, and no end of one that was leaving in it (TestCrash). After a restart a phase is called again (TestRestart).
//   - A Prolog is one program without arguments: what stands behind it is a mistake by which no daemon starts, and in quotes it is the name
//     of a program that is not there, so that nodes are drained (as seen). Prolog and Epilog alone may be patterns. What one prints
//     is in the log of slurmd when it has failed; what a phase prints to stderr is lost. burst_buffer.lua is read anew when it changes
//     (TestBeside).
//   - Who lives on a node is seen in /proc: processes of root named slurmstepd, with command lines as "slurmstepd: [7.batch]". On
//     nodes without a step there is one with PrologFlags=Contain only (TestLiveJobs).
package slurm
