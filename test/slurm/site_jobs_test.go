package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"datamove.dev/lustre/localfs"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm/hostlist"
)

// TestJobs: from submit to purge.
//
//safety:5/jobs files of one name from several nodes, a job that fails or is requeued: none is lost, and none of an old run replaces one of the new
//safety:7 with test/system/service TestJobReadsSealed
func TestJobs(t *testing.T) {
	s := shared(t)
	s.dataset(Anna, "vision", "archive:vision", "/opt/archive/vision", 20, 100_000)
	s.files(Anna, "/project/anna/notes", 2, 10)
	for _, row := range []struct {
		what string
		test func(*testing.T, *site)
	}{
		{"two nodes", twoNodes},
		{"an array", array},
		{"two people share a dataset", sharing},
		{"requeue", requeue},
		{"success is a condition", onSuccess},
		{"names that several nodes have", sameNames},
		{"it is not there", notThere},
		{"other ways to ask", otherWays},
		{"salloc and srun", asksAlone},
		{"names in paths", namesInPaths},
		{"checkpoints leave while it runs", checkpoints},
		{"from an S3 store and back", throughStore},
		{"one after the other", chained},
		{"a heterogeneous job", heterogeneous},
	} {
		t.Run(row.what, func(t *testing.T) { row.test(t, s.in(t)) })
	}
	s.allIdleNow()
}

func twoNodes(t *testing.T, s *site) {
	id := s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-in=dataset:vision to=scratch:vision required
#DATAMOVE stage-in=project:anna/notes to=scratch:notes
#DATAMOVE stage-out=scratch:out to=project:anna/run-%j/{node}
srun sh -c 'mkdir -p $DATAMOVE_DIR/out; cat $DATAMOVE_IN_VISION/* | wc -c >$DATAMOVE_DIR/out/bytes; cat $DATAMOVE_IN_NOTES/* >$DATAMOVE_DIR/out/notes'
env | grep ^DATAMOVE
`, "-N2")
	s.done(id, "COMPLETED")
	j := must.Get(s.Job(id))(t)
	said := s.Output(Anna, id)
	for _, line := range []string{"DATAMOVE_HOT=1", "DATAMOVE_IN_VISION=/local_nvme/jobs/" + id + ".5001/vision", "DATAMOVE_WARM_NOTES=/project/anna/notes", "DATAMOVE_DIR=/local_nvme/jobs/" + id + ".5001"} {
		if !strings.Contains(said, line+"\n") {
			t.Errorf("%s is not in its environment: %s", line, said)
		}
	}
	nodes := must.Get(hostlist.Nodes(j.Nodes))(t)
	for _, n := range nodes {
		at := "/project/anna/run-" + id + "/" + n
		if got := s.read(at + "/bytes"); got != "2000000" {
			t.Errorf("%s has counted %s", n, got)
		}
		if got := s.read(at + "/notes"); got != strings.Repeat("a", 10)+strings.Repeat("b", 10) {
			t.Errorf("%s has read %s", n, got)
		}
	}
	s.cleanSoon(id, Anna)
	s.allWell(id)
}

// chained: a job that waits for another one has all that it leaves, though Slurm begins it while that is on its way.
func chained(t *testing.T, s *site) {
	must.Do(t, os.MkdirAll(s.Path(Controller, "/project/slow"), 0o777))
	must.Do(t, os.Chmod(s.Path(Controller, "/project/slow"), 0o777))
	first := s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-out=scratch:out to=slow:chain
mkdir $DATAMOVE_DIR/out
for n in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/urandom >$DATAMOVE_DIR/out/$n; done
`)
	second := s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-in=slow:chain to=scratch:chain required
cat $DATAMOVE_IN_CHAIN/* | wc -c
`, "--dependency=afterok:"+first)
	s.done(second, "COMPLETED")
	if got := s.Output(Anna, second); got != "8000000\n" {
		t.Errorf("it has read %s", got)
	}
	s.done(first, "COMPLETED")
	s.cleanSoon(first, Anna)
	s.cleanSoon(second, Anna)
}

// heterogeneous: tasks of each component have the directory of that one on their node.
func heterogeneous(t *testing.T, s *site) {
	id := s.MustSubmit(Anna, "#!/bin/sh\nsrun --het-group=0,1 sh -c 'ls -d $DATAMOVE_DIR' | sort -V\n", "-N1", ":", "-N1")
	s.UntilState(id, "COMPLETED") // it asks for nothing
	n := must.Get(strconv.Atoi(id))(t)
	if got, want := s.Output(Anna, id), fmt.Sprintf("/local_nvme/jobs/%d.5001\n/local_nvme/jobs/%d.5001\n", n, n+1); got != want {
		t.Errorf("they have %q, want %q", got, want)
	}
	s.cleanSoon(id, Anna)
}

func array(t *testing.T, s *site) {
	id := s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-in=dataset:vision to=scratch:vision required
#DATAMOVE stage-out=scratch:out to=project:anna/array-%A/%a
mkdir $DATAMOVE_DIR/out && cat $DATAMOVE_IN_VISION/* | wc -c >$DATAMOVE_DIR/out/bytes
`, "--array=1-3")
	for n := 1; n <= 3; n++ {
		s.UntilState(fmt.Sprintf("%s_%d", id, n), "COMPLETED")
		s.Eventually("the results of task "+fmt.Sprint(n), func() error {
			if got := s.read(fmt.Sprintf("/project/anna/array-%s/%d/bytes", id, n)); got != "2000000" {
				return fmt.Errorf("it has counted %s", got)
			}
			return nil
		})
	}
}

// sharing: two people read one copy on a node, and the second one waits for nothing; who may not read the source has nothing of it.
func sharing(t *testing.T, s *site) {
	script := `#!/bin/sh
#DATAMOVE stage-in=dataset:vision to=scratch:vision required
cat $DATAMOVE_IN_VISION/* | wc -c
readlink -f $DATAMOVE_IN_VISION
while [ ! -e /project/go ]; do sleep 0.1; done
`
	var ids []string
	for _, user := range []string{Anna, Ben} {
		id := s.MustSubmit(user, script, "-w", "node1")
		s.Eventually("the job of "+user+" has read", func() error {
			if out := s.Output(user, id); !strings.Contains(out, "2000000") || !strings.Contains(out, "/.datasets/") {
				return fmt.Errorf("it says %s", out)
			}
			return nil
		})
		ids = append(ids, id)
	}
	if a, b := s.Output(Anna, ids[0]), s.Output(Ben, ids[1]); a != b {
		t.Errorf("they have read %s and %s", a, b)
	}
	if got := s.tasks(ids[1]); slices.ContainsFunc(got, func(x string) bool { return strings.HasPrefix(x, "stage") }) {
		t.Errorf("it was staged twice: %q", got)
	}
	must.Do(t, os.WriteFile(s.Path(Controller, "/project/go"), nil, 0o644))
	for _, id := range ids {
		s.done(id, "COMPLETED")
	}
	s.cleanSoon(ids[0], Anna)
	s.cleanSoon(ids[1], Ben)
}

// requeue: a job that begins again has its data again, and its results are those of the run that ended well.
func requeue(t *testing.T, s *site) {
	id := s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-in=dataset:vision to=scratch:vision required
#DATAMOVE stage-out=scratch:out to=project:anna/again-%j
mkdir -p $DATAMOVE_DIR/out
echo run ${SLURM_RESTART_COUNT:-0} >$DATAMOVE_DIR/out/run
cat $DATAMOVE_IN_VISION/* | wc -c >$DATAMOVE_DIR/out/bytes
[ -n "$SLURM_RESTART_COUNT" ] || sleep 300
`)
	s.UntilState(id, "RUNNING")
	s.Eventually("it is at work", func() error {
		j, err := s.Job(id)
		if err != nil {
			return err
		}
		n := 0
		_, err = fmt.Sscanf(j.Nodes, "node%d", &n)
		if err == nil {
			_, err = os.Stat(s.Path(n, fmt.Sprintf("/local_nvme/jobs/%s.5001/out/bytes", id)))
		}
		return err
	})
	s.Requeue(id)
	s.Until(id, "it waits again", func(j Job) bool { return j.State == "PENDING" })
	s.BeginAgain(id)
	s.Until(id, "completed in its second run", func(j Job) bool { return j.State == "COMPLETED" && j.Restarts == "1" })
	s.done(id, "COMPLETED")
	if got := s.read("/project/anna/again-" + id + "/run"); got != "run 1" {
		t.Errorf("the results are of %s", got)
	}
	s.cleanSoon(id, Anna)
}

func onSuccess(t *testing.T, s *site) {
	for _, row := range []struct{ exit, state, want string }{{"0", "COMPLETED", "good"}, {"3", "FAILED", ""}} {
		id := s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-out=scratch:good to=project:anna/good-%j when=success
#DATAMOVE stage-out=scratch:log to=project:anna/log-%j
mkdir $DATAMOVE_DIR/good $DATAMOVE_DIR/log; echo good >$DATAMOVE_DIR/good/it; echo log >$DATAMOVE_DIR/log/it
exit `+row.exit+"\n")
		s.done(id, row.state)
		s.cleanSoon(id, Anna)
		if got := s.read("/project/anna/log-" + id + "/it"); got != "log" {
			t.Errorf("exit %s: log: %s", row.exit, got)
		}
		if got := s.read("/project/anna/good-" + id + "/it"); row.want != "" && got != row.want || row.want == "" && !strings.Contains(got, "no such file") {
			t.Errorf("exit %s: %s", row.exit, got)
		}
	}
}

// sameNames: of files with one name from two nodes both are there in the end.
func sameNames(t *testing.T, s *site) {
	id := s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-out=scratch:out to=project:anna/same-%j
#DATAMOVE stage-out=scratch:only to=project:anna/first-%j
mkdir $DATAMOVE_DIR/only; echo first >$DATAMOVE_DIR/only/it
srun sh -c 'mkdir $DATAMOVE_DIR/out; hostname >$DATAMOVE_DIR/out/name; hostname >$DATAMOVE_DIR/out/only-$(hostname)'
`, "-w", "node[1-2]", "-N2")
	s.done(id, "COMPLETED")
	s.cleanSoon(id, Anna)
	at := "/project/anna/same-" + id
	first := s.read(at + "/name")
	second := map[string]string{"node1": "node2", "node2": "node1"}[first]
	if got := s.read(at + ".replaced-" + id + "-" + first + "/name"); got != second {
		t.Errorf("%s is there, and of %s: %s", first, second, got)
	}
	if got := s.read("/project/anna/first-" + id + "/it"); got != "first" {
		t.Errorf("what one node has written: %s", got)
	}
	s.allWell(id) // also where a node has written nothing
	for _, n := range []string{"node1", "node2"} {
		if got := s.read(at + "/only-" + n); got != n {
			t.Errorf("only-%s: %s", n, got)
		}
	}
}

// notThere: what can not be staged is said when the job is submitted, and where the mover was away then, the job is held with the reason.
func notThere(t *testing.T, s *site) {
	script := "#!/bin/sh\n#DATAMOVE stage-in=dataset:visoin to=scratch:vision required\nhostname\n"
	if _, said, err := s.Submit(Anna, script); err == nil || !strings.Contains(said, "there is no such dataset") || !strings.Contains(said, "dataset list") {
		t.Errorf("sbatch says %q, %v", said, err)
	}
	if _, said, err := s.Submit(Anna, "#!/bin/sh\n#DATAMOVE stage-in=dataset:vision to=scrtch:vision\nhostname\n"); err == nil || !strings.Contains(said, "did you mean scratch?") {
		t.Errorf("sbatch says %q, %v", said, err)
	}
	must.Do(t, s.head.Signal(syscall.SIGSTOP))
	id := s.MustSubmit(Anna, script)
	must.Do(t, s.head.Signal(syscall.SIGCONT))
	s.Until(id, "it is held, and says why", func(j Job) bool {
		return j.State == "PENDING" && j.Priority == "0" && strings.Contains(j.Reason, "there_is_no_such_dataset")
	})
	s.Scancel(id)
	s.UntilState(id, "CANCELLED")
	path := s.MustSubmit(Anna, "#!/bin/sh\n#DATAMOVE stage-in=project:anna/nothing to=scratch:nothing required\nhostname\n")
	s.Until(path, "it waits, and says why", func(j Job) bool {
		return j.State == "PENDING" && strings.Contains(j.SystemComment, "no such file")
	})
	s.Scancel(path)
	s.UntilState(path, "CANCELLED")
}

// otherWays: by comment, by the environment, and in the lines of DataWarp.
func otherWays(t *testing.T, s *site) {
	script := "#!/bin/sh\ncat $DATAMOVE_IN_NOTES/*; echo\nenv | grep ^DW; ls -d ${DW_JOB_STRIPED:-/}\n"
	want := strings.Repeat("a", 10) + strings.Repeat("b", 10)
	for what, submit := range map[string]func() string{
		"comment": func() string {
			return s.MustSubmit(Anna, script, "--comment", "datamove: stage-in=project:anna/notes to=scratch:notes required")
		},
		"environment": func() string {
			return s.MustSubmit(Anna, script, "--export=ALL,DATAMOVE=stage-in=project:anna/notes to=scratch:notes required")
		},
		"DataWarp": func() string {
			return s.MustSubmit(Anna, "#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=100MiB\n#DW copy_in source=/project/anna/notes destination=$DW_JOB_STRIPED/notes\n#DW copy_out source=$DW_JOB_STRIPED/out destination=/project/anna/dw\ncat $DW_JOB_STRIPED/notes/*; mkdir $DW_JOB_STRIPED/out; echo result >$DW_JOB_STRIPED/out/it\n")
		},
	} {
		id := submit()
		s.done(id, "COMPLETED")
		if out := s.Output(Anna, id); !strings.Contains(out, want) {
			t.Errorf("by %s: %s", what, out)
		}
		s.cleanSoon(id, Anna)
	}
	if got := s.read("/project/anna/dw/it"); got != "result" {
		t.Errorf("copy_out: %s", got)
	}
	space(t, s)
	id := s.MustSubmit(Anna, "#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=1GiB\nhostname\n", "-N2")
	s.Until(id, "one directory of two nodes is not there", func(j Job) bool {
		return strings.Contains(j.SystemComment, "asks for space that all of them see as one")
	})
	s.Scancel(id)
	s.UntilState(id, "CANCELLED")
}

// space: a job that asks for space alone has its directory, and is told that nothing holds it to that where nothing does.
func space(t *testing.T, s *site) {
	id := s.MustSubmit(Anna, "#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=100MiB\n#DW copy_in source=/project/anna/notes destination=$DW_JOB_STRIPED/notes\n#DW copy_out source=$DW_JOB_STRIPED/out destination=/project/anna/space\ncd $DW_JOB_STRIPED && mkdir out && echo result >out/it; env | grep ^DATAMOVE_CAPACITY\n", "--hold")
	must.Get(s.On(Controller, "scontrol", "update", "JobId="+id, "AdminComment=an operator's"))(t)
	must.Get(s.On(Controller, "scontrol", "release", id))(t)
	s.done(id, "COMPLETED")
	if out := s.Output(Anna, id); !strings.HasPrefix(out, "DATAMOVE_CAPACITY_WHY=") {
		t.Errorf("it has heard: %s", out)
	}
	if got, want := must.Get(s.Job(id))(t).AdminComment, "an operator's; datamove staged in: 20 bytes in 2 files"; got != want { // without an accounting nothing can be said of one that has ended
		t.Errorf("its comment is %q; want %q", got, want)
	}
	s.cleanSoon(id, Anna)
	id = s.MustSubmit(Anna, "#!/bin/sh\n#DW jobdw type=xfs capacity=1MiB name=fast\nls -d $DW_JOB_fast\n", "-N2")
	s.done(id, "COMPLETED")
	if out := s.Output(Anna, id); !strings.HasSuffix(out, "/DW_JOB_fast/\n") {
		t.Errorf("it has no directory: %s", out)
	}
}

// asksAlone: salloc and srun ask by their comment, and what they begin with is there.
func asksAlone(t *testing.T, s *site) {
	const comment = "--comment=datamove: stage-in=project:anna/notes to=scratch:notes required; stage-out=scratch:out to=project:anna/alone-%j"
	const work = `cat $DATAMOVE_IN_NOTES/*; echo " $DATAMOVE_HOT"; mkdir $DATAMOVE_DIR/out; echo $SLURM_JOB_ID >$DATAMOVE_DIR/out/it`
	for _, args := range [][]string{{"srun", comment, "--quiet"}, {"salloc", comment, "--quiet", "srun"}} {
		out, err := s.As(Anna, Controller, "", append(args, "sh", "-c", work)...)
		if want := strings.Repeat("a", 10) + strings.Repeat("b", 10) + " 1\n"; err != nil || out != want {
			t.Errorf("%s: %q, %v; want %q", args[0], out, err, want)
		}
	}
	s.Eventually("the results of both have left", func() error {
		left := must.Get(filepath.Glob(s.Path(Controller, "/project/anna/alone-*/it")))(t)
		if len(left) != 2 {
			return fmt.Errorf("there are %q", left)
		}
		return nil
	})
	if out, err := s.As(Anna, Controller, "", "salloc", "--comment=datamove: stage-in=projekt:x", "true"); err == nil || !strings.Contains(err.Error(), "did you mean project?") {
		t.Errorf("salloc: %s, %v", out, err)
	}
}

// namesInPaths: results are where the paths in the script say, whatever name the job has; a name that would lead elsewhere is refused at submit.
func namesInPaths(t *testing.T, s *site) {
	const script = "#!/bin/sh\n#DATAMOVE stage-out=scratch:out to=project:anna/%x/%A-%u\nmkdir $DATAMOVE_DIR/out; echo $SLURM_JOB_ID >$DATAMOVE_DIR/out/it\n"
	name := `my "run"; it's required`
	id := s.MustSubmit(Anna, script, "--job-name="+name)
	s.done(id, "COMPLETED")
	if got := s.read("/project/anna/" + name + "/" + id + "-anna/it"); got != id {
		t.Errorf("the results of %s: %s", name, got)
	}
	for _, r := range []struct{ name, path, want string }{
		{"../ben/x", "%x", "a slash would lead to another directory"},
		{"a/b", "%x", "a slash would lead to another directory"},
		{"..", "%x", "it would be another directory"},
		{"x", "%a", "is the task of an array, and this job is none"},
	} {
		_, said, err := s.Submit(Anna, "#!/bin/sh\n#DATAMOVE stage-out=scratch:out to=project:anna/"+r.path+"\n", "--job-name="+r.name)
		if err == nil || !strings.Contains(said, r.want) {
			t.Errorf("the name %s: %q, %v; want %s", r.name, said, err, r.want)
		}
	}
	// A name that sbatch was not told of: no node has its results beside their directory.
	id = s.MustSubmit(Anna, script, "--hold", "--job-name=x")
	s.Scontrol("update", "jobid="+id, "name=../ben/x")
	s.Release(id)
	s.Until(id, "it does not begin, and says why", func(j Job) bool {
		return j.State == "PENDING" && strings.Contains(j.SystemComment, "a slash would lead to another directory")
	})
	s.Scancel(id)
	s.UntilState(id, "CANCELLED")
}

// checkpoints: what is whole leaves for each target while the job runs, and the next job goes on from it; what is torn when a job is
// cancelled says so.
func checkpoints(t *testing.T, s *site) {
	script := `#!/bin/sh
#DATAMOVE checkpoint=scratch:ckpt to=project:anna/saved,archive:saved profile=dcp
echo from ${DATAMOVE_RESUME:-the beginning}
save() { mkdir -p $DATAMOVE_CHECKPOINT/step_$1; echo shard of $1 >$DATAMOVE_CHECKPOINT/step_$1/__0_0.distcp; }
whole() { echo names of $1 >$DATAMOVE_CHECKPOINT/step_$1/.metadata; }
`
	first := s.MustSubmit(Anna, script+"save 1; whole 1; save 2; sleep 600\n")
	for _, at := range []string{"/project/anna/saved", "/opt/archive/saved"} {
		s.Eventually("the first checkpoint is at "+at, func() error {
			if got := s.read(at + "/step_1/.metadata"); got != "names of 1" {
				return fmt.Errorf("%s", got)
			}
			return nil
		})
		if got := s.read(at + "/step_1/__0_0.distcp"); got != "shard of 1" {
			t.Errorf("%s: %s", at, got)
		}
	}
	if j, err := s.Job(first); err != nil || j.State != "RUNNING" {
		t.Fatalf("it has left from a job that does not run: %+v, %v", j, err)
	}
	s.Scancel(first)
	s.done(first, "CANCELLED")
	s.cleanSoon(first, Anna)
	if got := s.read("/project/anna/saved/step_2.incomplete-" + first + "/__0_0.distcp"); got != "shard of 2" {
		t.Errorf("the torn one: %s", got)
	}
	if got := s.read("/project/anna/saved/step_2/__0_0.distcp"); !strings.Contains(got, "no such file") {
		t.Errorf("the torn one is there as if it were whole: %s", got)
	}

	second := s.MustSubmit(Anna, script+"cat $DATAMOVE_RESUME/__0_0.distcp; save 2; whole 2\n")
	s.done(second, "COMPLETED")
	if out := s.Output(Anna, second); out != "from /project/anna/saved/step_1\nshard of 1\n" {
		t.Errorf("the second job said %q", out)
	}
	s.cleanSoon(second, Anna)
	for _, at := range []string{"/project/anna/saved", "/opt/archive/saved"} {
		if got := s.read(at+"/step_2/.metadata") + s.read(at+"/step_2/__0_0.distcp"); got != "names of 2shard of 2" {
			t.Errorf("%s: %s", at, got)
		}
	}
}

// throughStore: results leave for an S3 store, and another job has them from there.
func throughStore(t *testing.T, s *site) {
	first := s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-out=scratch:out to=store:made-%j
mkdir $DATAMOVE_DIR/out; echo made >$DATAMOVE_DIR/out/it
`)
	s.done(first, "COMPLETED")
	s.allWell(first)
	s.cleanSoon(first, Anna)
	second := s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-in=store:made-`+first+` to=scratch:made required
echo $DATAMOVE_HOT; srun cat $DATAMOVE_IN_MADE/it
`, "-N2")
	s.done(second, "COMPLETED")
	if out := s.Output(Anna, second); out != "1\nmade\nmade\n" {
		t.Errorf("the second job said %q", out)
	}
	s.cleanSoon(second, Anna)
}

// TestCapacityHolds: a job whose scratch has quotas is held to what it has asked for, and leaves no limit behind.
func TestCapacityHolds(t *testing.T) {
	soak(t)
	nvme := loopfs.Mount(t, loopfs.Spec{Type: "btrfs"})
	fd := must.Get(os.Open(nvme))(t)
	must.Do(t, (&localfs.Subvolumes{}).Enable(t.Context(), int(fd.Fd()), true))
	must.Do(t, fd.Close())
	o := Options{Nodes: 1}.with(t, shippedFiles(t, nil), ours(t, "datamove", "datamoved"), t.TempDir())
	o.Binds["/opt/nvme"] = nvme
	s := &site{Cluster: Start(t, o), agents: map[int]*Daemon{}}
	s.install(strings.Replace(siteConf, "path: /local_nvme", "path: /opt/nvme", 1))
	s.files(Anna, "/project/anna/notes", 2, 1_000_000)
	id := s.MustSubmit(Anna, "#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=8MiB\n#DW copy_in source=/project/anna/notes destination=$DW_JOB_STRIPED/notes\necho $DATAMOVE_CAPACITY\nhead -c 6000000 /dev/zero >$DW_JOB_STRIPED/some && sync -f $DW_JOB_STRIPED && echo fits\nhead -c 6000000 /dev/zero >$DW_JOB_STRIPED/more 2>&1 && sync -f $DW_JOB_STRIPED && echo too much\n")
	s.UntilState(id, "FAILED")
	if out := s.Output(Anna, id); !strings.HasPrefix(out, "8388608\nfits\n") || strings.Contains(out, "too much") {
		t.Errorf("%s", out)
	}
	s.Eventually("its limit is given back", func() error {
		left := must.Get(os.ReadDir(nvme + "/.datamove-projects"))(t)
		if len(left) > 0 {
			return fmt.Errorf("there is %v", left)
		}
		return nil
	})
}

// TestCancelled: a job that is cancelled in a phase leaves nothing behind.
//
//safety:5/jobs a job that is cancelled in each phase leaves nothing held and nothing under way
func TestCancelled(t *testing.T) {
	s := shared(t)
	s.dataset(Anna, "deep", "tape:deep", "/opt/archive/tape/deep", 10, 2_000_000)
	s.dataset(Anna, "near", "slow:near", "/project/slow/near", 10, 2_000_000)
	for _, row := range []struct {
		what, script, state string
		is                  func(Job) bool
	}{
		{"while it is pending", "#DATAMOVE stage-in=dataset:deep to=scratch:deep\n", "CANCELLED", func(j Job) bool { return j.BurstBufferState == "staging-in" && s.under(j.ID) }},
		{"while its node is made ready", "#DATAMOVE stage-in=dataset:near to=scratch:near\n", "CANCELLED", func(j Job) bool { return j.BurstBufferState == "pre-run" && s.under(j.ID) }},
		{"while it runs", "#DATAMOVE stage-in=dataset:near to=scratch:near\n#DATAMOVE stage-out=scratch:out to=project:anna/cancelled\ntouch /project/anna/runs\nsleep 300\n", "CANCELLED", func(j Job) bool {
			_, err := os.Stat(s.Path(Controller, "/project/anna/runs"))
			return j.State == "RUNNING" && j.BurstBufferState == "running" && err == nil
		}},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := s.in(t)
			id := s.MustSubmit(Anna, "#!/bin/sh\n"+row.script)
			s.Until(id, row.what, row.is)
			s.Scancel(id)
			s.UntilState(id, row.state) // a job in pre-run is never torn down, as far as Slurm tells
			s.cleanSoon(id, Anna)
			s.Eventually("nothing goes on", func() error {
				if got := s.tasks(id); slices.ContainsFunc(got, func(x string) bool {
					return strings.Contains(x, " running ") || strings.Contains(x, " queued ") || strings.Contains(x, " paused ")
				}) {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
			s.allIdleNow()
		})
	}
}

// TestStageOutTimeout: when Slurm waits no longer, the results come all the same, and the directory goes then.
//
//safety:5/jobs Slurm stops waiting, a node dies, slurmctld and the coordinator are killed: what is to leave a job's directory leaves it later, or waits for an operator
func TestStageOutTimeout(t *testing.T) {
	s := deployed(t, Options{Nodes: 1}, func(files fstest.MapFS) {
		text := string(files["burst_buffer.conf"].Data)
		files["burst_buffer.conf"].Data = []byte(strings.ReplaceAll(text, "StageOutTimeout=86400", "StageOutTimeout=2"))
	})
	id := s.MustSubmit(Anna, "#!/bin/sh\n#DATAMOVE stage-out=scratch:out to=slow:out\nmkdir $DATAMOVE_DIR/out && head -c 12000000 /dev/zero >$DATAMOVE_DIR/out/zeros\n")
	s.done(id, "COMPLETED")
	s.Eventually("Slurm has torn it down", func() error {
		out := s.Scontrol("show", "burstbuffer")
		if strings.Contains(out, "JobID="+id) {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	if info, err := os.Stat(s.Path(Controller, "/project/slow/out/zeros")); err == nil && info.Size() == 12_000_000 {
		t.Skip("it was too fast for the limit")
	}
	if _, err := os.Stat(s.Path(1, "/local_nvme/jobs/"+id+".5001/out/zeros")); err != nil {
		t.Errorf("what has not left is gone: %v", err)
	}
	s.Eventually("the results are there", func() error {
		info, err := os.Stat(s.Path(Controller, "/project/slow/out/zeros"))
		if err == nil && info.Size() != 12_000_000 {
			err = fmt.Errorf("%d bytes", info.Size())
		}
		return err
	})
	s.cleanSoon(id, Anna)
}

// TestMoverStops: with the mover stopped on all nodes no node is drained, and jobs run with what is warm.
//
//safety:8 the mover stands still on all nodes while jobs begin and end, or hangs in a phase, or a disk does in a hook: no node is drained, no job begins because of it, Slurm's controller waits for seconds
func TestMoverStops(t *testing.T) {
	s := shared(t)
	s.dataset(Anna, "still", "slow:still", "/project/slow/still", 10, 10_000_000)
	id := s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-in=dataset:still to=scratch:still
echo $DATAMOVE_HOT $DATAMOVE_IN_STILL; cat $DATAMOVE_IN_STILL/* | wc -c
srun sh -c 'echo $DATAMOVE_HOT'
`, "-N3")
	s.Until(id, "its nodes are made ready", func(j Job) bool { return j.BurstBufferState == "pre-run" })
	defer s.signal(syscall.SIGCONT) // others need it
	s.signal(syscall.SIGSTOP)
	s.UntilState(id, "COMPLETED")
	if got := s.Output(Anna, id); got != "0 /project/slow/still\n100000000\n0\n0\n0\n" {
		t.Errorf("it says %s", got)
	}
	for _, n := range s.Nodes() {
		if n.State != "IDLE" {
			t.Errorf("%s is %s %s", n.Name, n.State, n.Reason)
		}
	}
	s.signal(syscall.SIGCONT)
	s.agentsReady(3)
	next := s.MustSubmit(Anna, "#!/bin/sh\n#DATAMOVE stage-out=scratch:out to=project:anna/after\nmkdir $DATAMOVE_DIR/out && echo works >$DATAMOVE_DIR/out/it\n")
	s.done(next, "COMPLETED")
	if got := s.read("/project/anna/after/it"); got != "works" {
		t.Errorf("afterwards: %s", got)
	}
}

// slurmState is where slurmctld saves its state.
const slurmState = "/var/lib/slurm/slurmctld"

// TestRestarts: slurmctld and the coordinator end while data is staged, and begin again; the job has its data.
//
//safety:5/jobs with TestStageOutTimeout
func TestRestarts(t *testing.T) {
	s := deployed(t, Options{Nodes: 1}, nil)
	s.dataset(Anna, "deep", "tape:deep", "/opt/archive/tape/deep", 10, 2_000_000)
	id := s.MustSubmit(Anna, "#!/bin/sh\n#DATAMOVE stage-in=dataset:deep to=scratch:deep required\ncat $DATAMOVE_IN_DEEP/* | wc -c\n", "--hold")
	s.save()
	before := t.TempDir()
	must.Do(t, os.CopyFS(before, os.DirFS(s.Path(Controller, slurmState))))
	s.Release(id)
	s.Until(id, "it is staged", func(j Job) bool { return j.BurstBufferState == "staging-in" })
	must.Do(t, s.head.Kill())
	s.KillController()
	_, err := s.On(Controller, "sh", "-c", "rm -rf "+slurmState+"/*")
	must.Do(t, err)
	must.Do(t, os.CopyFS(s.Path(Controller, slurmState), os.DirFS(before)))
	_, err = s.On(Controller, "sh", "-c", "chown -R --reference="+slurmState+" "+slurmState)
	must.Do(t, err)
	s.startHead()
	s.StartController()
	s.agentsReady(1)
	s.Release(id)
	s.Eventually("it completes", func() error {
		j, err := s.Job(id)
		if err == nil && j.State != "COMPLETED" {
			err = fmt.Errorf("it is %+v", j)
		}
		return err
	})
	if got := s.Output(Anna, id); got != "20000000\n" {
		t.Errorf("it says %s", got)
	}
	s.cleanSoon(id, Anna)
}

// TestSavedWhileStaging: a job of which a killed slurmctld had saved that it is staging in is not staged again by Slurm 22.05, as the guide says; jobs after it are, and it can be cancelled.
func TestSavedWhileStaging(t *testing.T) {
	s := deployed(t, Options{Nodes: 1}, nil)
	s.dataset(Anna, "deep", "tape:deep", "/opt/archive/tape/deep", 10, 2_000_000)
	script := "#!/bin/sh\n#DATAMOVE stage-in=dataset:deep to=scratch:deep required\ncat $DATAMOVE_IN_DEEP/* | wc -c\n"
	id := s.MustSubmit(Anna, script)
	s.Until(id, "it is staged", func(j Job) bool { return j.BurstBufferState == "staging-in" })
	s.save()
	s.KillController()
	s.StartController()
	next := s.MustSubmit(Anna, script)
	s.UntilState(next, "COMPLETED")
	if j, err := s.Job(id); err != nil || j.State != "PENDING" || j.BurstBufferState != "staging-in" {
		t.Errorf("the guide says that it stays: %+v, %v", j, err)
	}
	s.Scancel(id)
	s.UntilState(id, "CANCELLED")
	s.cleanSoon(id, Anna)
}

// TestRestartsBefore: slurmctld ends while the node of a job is made ready, and begins again. The job waits for what comes already, and begins once.
//
//safety:5/jobs with TestStageOutTimeout
func TestRestartsBefore(t *testing.T) {
	s := deployed(t, Options{Nodes: 1}, nil)
	for _, row := range []struct {
		what string
		end  func(*site)
	}{
		{"stopped", func(s *site) { s.StopController() }},
		{"killed", func(s *site) { s.save(); s.KillController() }},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := s.in(t)
			s.dataset(Anna, row.what, "slow:"+row.what, "/project/slow/"+row.what, 10, 3_000_000)
			id := s.MustSubmit(Anna, fmt.Sprintf("#!/bin/sh\n#DATAMOVE stage-in=dataset:%s to=scratch:in required\ncat $DATAMOVE_IN_IN/* | wc -c\n", row.what))
			s.Until(id, "its node is made ready", func(j Job) bool { return j.BurstBufferState == "pre-run" })
			row.end(s)
			s.StartController()
			s.UntilState(id, "COMPLETED")
			if got := s.Output(Anna, id); got != "30000000\n" {
				t.Errorf("it says %s", got)
			}
			if j, err := s.Job(id); err != nil || j.Restarts != "0" {
				t.Errorf("%+v, %v", j, err)
			}
			if got := s.tasks(id); slices.ContainsFunc(got, func(x string) bool { return strings.Contains(x, "cancelled") }) {
				t.Errorf("%q", got)
			}
			s.cleanSoon(id, Anna)
		})
	}
}

// TestEndings: however a job ends its results leave. Slurm before 23.02 says of one that it has ended itself what it says of one that went well.
func TestEndings(t *testing.T) {
	s := deployed(t, Options{Conf: "SlurmdTimeout=10\n"}, nil)
	rows := []struct {
		what, body, state string
		args              []string
		end               func(id string)
		failed            bool
		id                string
	}{
		{what: "it is killed by a signal", body: "kill -9 $$", state: "FAILED", failed: true},
		{what: "it is cancelled", body: "sleep 600", state: "CANCELLED", end: func(id string) { s.Scancel(id) }},
		{what: "its time is up", body: "sleep 600", state: "TIMEOUT", args: []string{"--time=1"}},
		{what: "a node of it dies", body: "sleep 600", state: "NODE_FAIL", args: []string{"-N2", "-w", "node[3-4]", "--no-requeue"}, end: func(string) { s.KillNode(4) }},
	}
	for i, row := range rows {
		rows[i].id = s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-out=scratch:good to=project:anna/good-%j when=success
#DATAMOVE stage-out=scratch:log to=project:anna/log-%j
mkdir $DATAMOVE_DIR/good $DATAMOVE_DIR/log; echo good >$DATAMOVE_DIR/good/it; echo log >$DATAMOVE_DIR/log/it; touch /project/anna/ready-$SLURM_JOB_ID
`+row.body+"\n", append(row.args, "--oversubscribe")...)
	}
	for _, row := range rows {
		if row.end != nil {
			s.UntilState(row.id, "RUNNING")
			s.Eventually("it has written", func() error { _, err := os.Stat(s.Path(Controller, "/project/anna/ready-"+row.id)); return err })
			row.end(row.id)
		}
	}
	for _, row := range rows {
		s.Eventually(row.what, func() error {
			j, err := s.Job(row.id)
			if err == nil && (j.State != row.state || j.BurstBufferState != "complete") {
				err = fmt.Errorf("it is %+v", j)
			}
			return err
		})
		if got := s.read("/project/anna/log-" + row.id + "/it"); got != "log" {
			t.Errorf("%s: log: %s", row.what, got)
		}
		if got := s.read("/project/anna/good-" + row.id + "/it"); row.failed && !strings.Contains(got, "no such file") || !row.failed && got != "good" {
			t.Errorf("%s: what is to leave when it has succeeded: %s", row.what, got)
		}
	}
}

// TestNodeKilled: a node dies under a job, which begins again on another one.
//
//safety:5/jobs with TestStageOutTimeout
func TestNodeKilled(t *testing.T) {
	s := deployed(t, Options{Nodes: 2, Conf: "SlurmdTimeout=10\n"}, nil)
	s.dataset(Anna, "vision", "archive:vision", "/opt/archive/vision", 20, 100_000)
	id := s.MustSubmit(Anna, `#!/bin/sh
#DATAMOVE stage-in=dataset:vision to=scratch:vision required
#DATAMOVE stage-out=scratch:out to=project:anna/killed
mkdir $DATAMOVE_DIR/out; cat $DATAMOVE_IN_VISION/* | wc -c >$DATAMOVE_DIR/out/bytes
[ -n "$SLURM_RESTART_COUNT" ] || sleep 300
`, "-w", "node1")
	s.UntilState(id, "RUNNING")
	time.Sleep(time.Second)
	s.KillNode(1)
	s.Until(id, "it waits again", func(j Job) bool { return j.State == "PENDING" })
	s.Scontrol("update", "jobid="+id, "reqnodelist=", "starttime=now")
	s.Eventually("what is on the dead node waits for somebody", func() error {
		if got := s.tasks(id); !slices.ContainsFunc(got, func(x string) bool { return strings.HasPrefix(x, "copy paused") }) {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
	s.Until(id, "it has ended well elsewhere", func(j Job) bool { return j.State == "COMPLETED" && j.Nodes == "node2" })
	if got := s.read("/project/anna/killed/bytes"); got != "2000000" {
		t.Errorf("it has counted %s", got)
	}
}
