package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/aws"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
	"datamove.dev/tiering/burst"
	burstaws "datamove.dev/tiering/burst/aws"
	"datamove.dev/tiering/burst/pricing"
)

// only is a burst that has results, and nothing else.
const only = `kind: Burst
metadata: {name: NAME}
spec:
  team: vision
  job: {kind: training, gpus: 64, noneHere: true}
  idle: 24h
  cloud: {tier: cloud, region: us-east-1, fileSystem: {type: SCRATCH_2, subnet: subnet-0123456789abcdef0}}
  link: {kind: directConnect, rate: 10Gbit/s}
  lasts: 30h
  results: [{path: results, home: "project:NAME"}]
`

// zoo is a region with 50 file systems, of which some may go; with DATAMOVE_SOAK=1 it has four times as many.
type zoo struct {
	*world
	all    int
	leases map[string]bool
	may    []string // file systems that may go
}

func newZoo(t *testing.T) *zoo {
	z := &zoo{world: newWorld(t, 100_000*pricing.Dollar), leases: map[string]bool{}, all: 50}
	if seed.Soak() {
		z.all = 200
	}
	z.aws.Limit("file systems", 1000)
	cloud := z.leg().Cloud
	stranger := func(n int, tags map[string]string) {
		t.Helper()
		_, err := cloud.Create(t.Context(), burstaws.Want{FileSystem: burst.FileSystem{Type: burst.Scratch2, Subnet: "subnet-0123456789abcdef0"}, GiB: 1200, Token: fmt.Sprintf("stranger-%d", n), Tags: tags})
		z.must(err)
	}
	ours := map[string]func(name string, id string){
		"may go":       func(_, id string) { z.may = append(z.may, id) },
		"leased":       func(name, _ string) { z.leases[name] = true },
		"not home":     nil,
		"written to":   nil,
		"has a task":   nil,
		"was read now": nil,
	}
	kinds := slices.Sorted(maps.Keys(ours))
	var records []*burst.Record
	for n := range z.all * 6 / 25 {
		name := fmt.Sprintf("%s-%d", strings.ReplaceAll(kinds[n%len(kinds)], " ", "-"), n)
		r, err := z.leg().Up(t.Context(), read(t, strings.ReplaceAll(only, "NAME", name)), nil)
		z.must(err)
		z.aws.FileSystem(r.FileSystem.ID).Write(aws.File{Name: "results/log.txt", Body: []byte(name), Mode: 0o644})
		if kinds[n%len(kinds)] != "not home" {
			z.must(z.leg().SyncBack(t.Context(), r))
		}
		records = append(records, r)
		if n%2 == 0 { // somebody has made another one by the tags of ours
			stranger(1000+n, map[string]string{burst.TagBurst: r.ID, burst.TagName: name})
		}
	}
	for n := range z.all - z.all*6/25 - z.all*3/25 {
		stranger(n, []map[string]string{nil, {"datamove.dev/name": "llama-ft"}, {burst.TagBurst: "0123456789abcdef"}, {"team": "vision", burst.TagTeam: "vision"}}[n%4])
	}
	z.clock.Pass(40 * time.Hour)
	for n, r := range records {
		kind := kinds[n%len(kinds)]
		tree := z.aws.FileSystem(r.FileSystem.ID)
		switch kind {
		case "written to":
			z.aws.AddDatum(aws.Datum{Namespace: "AWS/FSx", Name: "DataWriteBytes", Dimensions: map[string]string{"FileSystemId": r.FileSystem.ID}, At: z.clock.Now().Add(-30 * time.Hour), Value: 1})
			tree.Write(aws.File{Name: "results/late.txt", Body: []byte("late"), Mode: 0o644})
		case "was read now":
			z.aws.AddDatum(aws.Datum{Namespace: "AWS/FSx", Name: "DataReadBytes", Dimensions: map[string]string{"FileSystemId": r.FileSystem.ID}, At: z.clock.Now().Add(-20 * time.Minute), Value: 1})
		case "has a task":
			z.aws.Order("CreateDataRepositoryTask", 1, aws.Stalls)
			_, err := cloud.Begin(t.Context(), r.FileSystem.ID, "somebody-"+r.ID, burst.ExportWork, []string{"results"}, "s3://"+z.store.Bucket+"/team/bursts/"+nameOf(t, r)+"/reports", nil)
			z.must(err)
		}
		if do := ours[kind]; do != nil {
			do(nameOf(t, r), r.FileSystem.ID)
		}
	}
	return z
}

func nameOf(t *testing.T, r *burst.Record) string {
	b := must.Get(r.Burst())(t)
	return string(b.Metadata.Name)
}

func (z *zoo) leg() *Manager {
	l := z.world.leg()
	l.Leases = func(b *burst.Burst) []string {
		if z.leases[string(b.Metadata.Name)] {
			return []string{"slurm:77"}
		}
		return nil
	}
	return l
}

// reap takes down what may go, as a new process does; it says how many things it was told to take.
func (z *zoo) reap(l *Manager) (taken []string, err error) {
	records := map[string]*burst.Record{}
	for _, r := range z.kept() {
		records[r.ID] = r
	}
	verdicts, err := l.Look(z.t.Context(), records)
	if err != nil {
		return nil, err
	}
	for _, v := range verdicts {
		if v.Take {
			taken = append(taken, v.Sight.ID)
			err = errors.Join(err, l.Reap(z.t.Context(), v, records[v.Sight.Tags[burst.TagBurst]]))
		}
	}
	return taken, err
}

// TestReaper: of all file systems exactly those go that may, also while AWS throttles, and after a crash in the middle.
//
//safety:aws 50 file systems (with `DATAMOVE_SOAK=1` 200) with tags of others, leases, tasks, readers, writers and results that are not home, while AWS throttles, and after a crash in the middle: exactly those go that may
func TestReaper(t *testing.T) {
	z := newZoo(t)
	before, err := z.leg().Cloud.FileSystems(t.Context())
	z.must(err)
	if len(before) != z.all || len(z.may) != z.all/25 {
		t.Fatalf("%d file systems, of which %d may go", len(before), len(z.may))
	}
	// A look changes nothing.
	if _, err := z.leg().Look(t.Context(), map[string]*burst.Record{}); err != nil || z.aws.Calls("DeleteFileSystem") != 0 {
		t.Fatal(err)
	}
	for _, operation := range []string{"DescribeFileSystems", "DescribeDataRepositoryTasks", "DeleteFileSystem", "GetMetricData", "DescribeDataRepositoryAssociations", "CreateDataRepositoryTask"} {
		z.aws.Order(operation, 5, aws.Throttled)
	}
	// The first process dies in the middle.
	dies, end := z.mortal(25)
	dies.Leases = z.leg().Leases
	if taken, err := z.reap(dies); !errors.Is(err, errDied) || !end.over() {
		t.Fatalf("it lives, and takes %v: %v", taken, err)
	}
	// What it had begun to take down another one finishes, as who runs the command again does.
	for _, r := range z.kept() {
		if r.State == burst.Leaving {
			z.must(z.leg().Down(t.Context(), r, nil))
		}
	}
	_, err = z.reap(z.leg())
	z.must(err)
	after, err := z.leg().Cloud.FileSystems(t.Context())
	z.must(err)
	var gone []string
	for _, fs := range before {
		if !slices.ContainsFunc(after, func(a burstaws.FileSystem) bool { return a.ID == fs.ID }) {
			gone = append(gone, fs.ID)
		}
	}
	slices.Sort(gone)
	slices.Sort(z.may)
	if !slices.Equal(gone, z.may) {
		t.Errorf("gone are %v, and may go %v", gone, z.may)
	}
	if taken, err := z.reap(z.leg()); len(taken) > 0 || err != nil {
		t.Errorf("again it takes %v, %v", taken, err)
	}
}

// TestReapRefuses: what was not judged to be ours and idle is not taken, whoever asks.
//
//safety:aws with TestReaper
func TestReapRefuses(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	for _, v := range []burst.Verdict{{Sight: burst.Observed{ID: "fs-1", Kind: burst.FileSystemSight}}, {Take: true, Sight: burst.Observed{ID: "fs-1"}}, {Take: true, Ours: true}} {
		if err := w.leg().Reap(t.Context(), v, nil); !errors.Is(err, mover.ErrRefused) {
			t.Errorf("%+v: %v", v, err)
		}
	}
}

// TestIdleInstances: an idle instance of a burst is stopped; one that computes, or is somebody else's, is not.
//
//safety:aws with TestReaper
func TestIdleInstances(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	r, err := w.leg().Up(t.Context(), read(t, strings.ReplaceAll(only, "NAME", "one")), nil)
	w.must(err)
	w.aws.FileSystem(r.FileSystem.ID).Write(aws.File{Name: "results/log.txt", Body: []byte("x"), Mode: 0o644}) // so that this one stays
	since := w.clock.Now()
	for id, tags := range map[string]map[string]string{"i-00000000000000001": {burst.TagBurst: r.ID}, "i-00000000000000002": {burst.TagBurst: r.ID}, "i-00000000000000003": {burst.TagBurst: "other"}, "i-00000000000000004": nil} {
		w.aws.AddInstance(aws.Instance{ID: id, Type: "p5.48xlarge", LaunchTime: since, Tags: tags})
		w.aws.AddDatum(aws.Datum{Namespace: "AWS/EC2", Name: "CPUUtilization", Dimensions: map[string]string{"InstanceId": id}, At: since.Add(10 * time.Minute), Value: 2})
	}
	w.clock.Pass(40 * time.Hour)
	w.aws.AddDatum(aws.Datum{Namespace: "AWS/EC2", Name: "CPUUtilization", Dimensions: map[string]string{"InstanceId": "i-00000000000000002"}, At: w.clock.Now().Add(-time.Hour), Value: 93})
	records := map[string]*burst.Record{r.ID: w.record("one")}
	verdicts, err := w.leg().Look(t.Context(), records)
	w.must(err)
	for _, v := range verdicts {
		if v.Take {
			w.must(w.leg().Reap(t.Context(), v, records[r.ID]))
		}
	}
	var stopped []any
	for _, call := range w.aws.Log() {
		if call.Operation == "StopInstances" {
			stopped = append(stopped, fmt.Sprint(call.Parameters))
		}
	}
	balance, err := w.ledger.Balance(t.Context(), "vision")
	if want := 2 * 40 * 5504 * pricing.Cent; err != nil || balance.Spent < want*99/100 || balance.Spent > want*102/100 { // two of ours, for 40 hours, at $55.04
		t.Errorf("spent %v, %v; the instances are %v", balance.Spent, err, want)
	}
	if len(stopped) != 1 || !strings.Contains(fmt.Sprint(stopped), "i-00000000000000001") {
		t.Errorf("stopped %v; %+v", stopped, verdicts)
	}
}
