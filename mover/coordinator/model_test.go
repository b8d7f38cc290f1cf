package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/test/seed"
	_ "datamove.dev/test/seed/property"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/dataset/datasetserver"
)

// model is what should be true of a desk: where which bytes are, who holds what.
type model struct {
	*desk
	rt       *rapid.T
	disk     map[string]uint64 // content by tier, node and path; noise is what is half there
	changed  map[string]bool   // somebody has changed what is there, behind our back
	betrayed map[uint64]bool   // contents whose source was changed
	holds    map[string]hold   // leases by holder; each has one
	wishes   map[string][]wish // by task
	holders  int
	contents uint64          // that there were
	dropped  map[string]bool // digests whose bytes stay although nobody knows them any more
	purged   map[string]bool // what a purge that failed has left: nobody may rely on it
	counts   map[string]int
}

type hold struct {
	slot string
	end  time.Time
}

type wish struct {
	holder string
	ttl    time.Duration
}

const noise = 999

// slotOf names a replica by where its bytes are.
func slotOf(at, node string) string { return node + "|" + at }

func (m *model) at(r *pb.Replica) string { return slotOf(r.GetLocation(), r.GetNode()) }

// unsteady are datasets whose sources change.
var unsteady = []string{"a", "c"}

// sources are where datasets come from.
var sources = map[string]string{"a": "project:a", "b": "archive:b", "c": "/data/c"}

func (m *model) sourceSlot(name string) string {
	if strings.HasPrefix(sources[name], "/") {
		return slotOf(sources[name], "n1")
	}
	return slotOf(sources[name], "")
}

func (m *model) pick(what string, from []string) string {
	return rapid.SampledFrom(from).Draw(m.rt, what)
}

func (m *model) dataset() string { return m.pick("dataset", []string{"a", "b", "c"}) }

// tierAndNode draws a tier, and a node of it.
func (m *model) tierAndNode() (tier, node string) {
	all := [][2]string{{"scratch", "n1"}, {"scratch", "n2"}, {"project", ""}, {"archive", ""}}
	x := rapid.SampledFrom(all).Draw(m.rt, "tier")
	return x[0], x[1]
}

// ask notes whether a request was granted. What the service says must be of a kind.
func (m *model) ask(what string, err error) bool {
	if err != nil && mover.KindName(err) == "OTHER" {
		m.rt.Fatalf("%s: %v", what, err)
	}
	m.counts[what]++
	m.rt.Logf("%s: %v", what, err)
	if err == nil {
		m.counts[what+" granted"]++
	}
	return err == nil
}

func (m *model) add() {
	name := m.dataset()
	_, err := m.datasets.AddDataset(root, &pb.AddDatasetRequest{Name: name, Location: sources[name], Node: "n1"})
	m.ask("add", err)
}

// change changes what is at a source, behind the service's back. Nobody can promise to
// keep a version whose source does not stay what it was.
func (m *model) change() { m.alter(m.sourceSlot(m.pick("dataset", unsteady))) }

// spoil changes what is in a replica that this service has made where it counts as a copy.
func (m *model) spoil() {
	var there []string
	for _, r := range m.rows("") {
		if managed(r) && r.GetTier() != "scratch" && r.GetState() == whole {
			there = append(there, m.at(r))
		}
	}
	if len(there) > 0 {
		m.alter(m.pick("spoiled", there))
	}
}

func (m *model) alter(at string) {
	m.changed[at], m.betrayed[m.disk[at]] = true, true
	m.contents++
	m.disk[at] = m.contents // never what it was, and never that of another
}

func (m *model) stage() {
	name := m.dataset()
	tier, node := m.tierAndNode()
	r := &pb.StageRequest{Source: "dataset:" + name, Tier: tier, Node: node}
	if m.pick("lease", []string{"lease", "none"}) == "lease" {
		m.holders++
		r.Holder, r.LeaseTtl = fmt.Sprint("h", m.holders), durationpb.New(time.Hour)
	}
	if m.pick("pin", []string{"pin", "none", "none", "none"}) == "pin" {
		r.PinUntil = timestamppb.New(m.clock.Now().Add(time.Hour))
	}
	a, err := m.datasets.Stage(root, r)
	if !m.ask("stage", err) || r.GetLeaseTtl() == nil {
		return
	}
	if t := a.GetTask(); t != nil {
		m.wishes[t.GetId()] = append(m.wishes[t.GetId()], wish{r.GetHolder(), time.Hour})
		return
	}
	m.holds[r.GetHolder()] = hold{m.at(a.GetReplica()), m.clock.Now().Add(time.Hour)}
}

func (m *model) acquire() {
	r := m.some()
	if r == nil {
		return
	}
	m.holders++
	ttl := rapid.SampledFrom([]time.Duration{time.Minute, time.Hour}).Draw(m.rt, "ttl")
	l, err := m.datasets.AcquireLease(root, &pb.AcquireLeaseRequest{Dataset: r.GetDataset(), Digest: r.GetDigest(), Tier: r.GetTier(), Node: r.GetNode(), Holder: fmt.Sprint("h", m.holders), Ttl: durationpb.New(ttl)})
	if m.ask("acquire", err) {
		m.holds[l.GetHolder()] = hold{slotOf(l.GetLocation(), l.GetNode()), m.clock.Now().Add(ttl)}
	}
}

// leases are those that the service lists, without those of its tasks.
func (m *model) leases() map[string]*pb.Lease {
	found := map[string]*pb.Lease{}
	a, err := m.datasets.ListLeases(root, &pb.ListLeasesRequest{PageSize: 1000})
	if err != nil {
		m.rt.Fatalf("%v", err)
	}
	for _, l := range a.GetLeases() {
		if !strings.HasPrefix(l.GetHolder(), state.TaskHolder) {
			found[l.GetHolder()] = l
		}
	}
	return found
}

func (m *model) someLease() *pb.Lease {
	all := m.leases()
	if len(all) == 0 {
		return nil
	}
	return all[m.pick("lease", slices.Sorted(maps.Keys(all)))]
}

func (m *model) renew() {
	if l := m.someLease(); l != nil {
		_, err := m.datasets.RenewLease(root, &pb.RenewLeaseRequest{Id: l.GetId(), Ttl: durationpb.New(time.Hour)})
		if m.ask("renew", err) {
			h := m.holds[l.GetHolder()]
			if end := m.clock.Now().Add(time.Hour); end.After(h.end) {
				h.end = end
			}
			m.holds[l.GetHolder()] = h
		}
	}
}

func (m *model) drop() {
	if l := m.someLease(); l != nil {
		_, err := m.datasets.DropLease(root, &pb.DropLeaseRequest{Id: l.GetId()})
		if m.ask("drop", err) {
			delete(m.holds, l.GetHolder())
		}
	}
}

func (m *model) pin() {
	tier := m.pick("tier", []string{"", "scratch", "project", "archive"})
	_, err := m.datasets.Pin(root, &pb.PinRequest{Source: "dataset:" + m.dataset(), Tier: tier, Until: timestamppb.New(m.clock.Now().Add(30 * time.Minute))})
	m.ask("pin", err)
}

func (m *model) unpin() {
	tier := m.pick("tier", []string{"", "scratch", "project", "archive"})
	_, err := m.datasets.Unpin(root, &pb.UnpinRequest{Source: "dataset:" + m.dataset(), Tier: tier})
	m.ask("unpin", err)
}

// some draws a replica that there is.
func (m *model) some() *pb.Replica {
	rows := m.rows("")
	if len(rows) == 0 {
		return nil
	}
	return rows[rapid.IntRange(0, len(rows)-1).Draw(m.rt, "replica")]
}

// release tries to release replicas until one may go.
func (m *model) release() {
	rows := m.rows("")
	for i := range rows {
		r := rows[(i+rapid.IntRange(0, len(rows)-1).Draw(m.rt, "replica"))%len(rows)]
		_, err := m.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:" + tag(r.GetDataset(), r.GetDigest()), Tier: cmp.Or(r.GetTier(), "scratch"), Node: r.GetNode()})
		if m.ask("release", err) {
			return
		}
	}
}

func (m *model) purge() {
	_, node := m.tierAndNode()
	_, err := m.datasets.Purge(root, &pb.PurgeRequest{Location: m.pick("at", []string{"scratch:.datasets", "scratch:", "scratch:.datasets/a", "project:x"}), Node: node})
	m.ask("purge", err)
}

func (m *model) forget() {
	name := m.dataset()
	before := m.rows(name)
	_, err := m.datasets.RemoveDataset(root, &pb.RemoveDatasetRequest{Name: name})
	if m.ask("remove dataset", err) {
		for _, r := range before {
			m.dropped[m.at(r)] = true
		}
	}
}

func (m *model) tooFull() {
	tier, node := m.tierAndNode()
	row := m.tier(tier)
	row.Node, row.TotalBytes = node, 1000
	if err := m.datasets.MakeRoom(context.Background(), row, dataset.Watermarks{High: 50, Low: 50 + rapid.IntRange(0, 40).Draw(m.rt, "low")}); err != nil {
		m.rt.Fatalf("%v", err)
	}
}

func (m *model) read() {
	_, err := m.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:" + m.dataset(), Target: "/out"}})
	m.ask("read", err)
}

// write writes over a source by a task of ours.
func (m *model) write() {
	name := m.pick("dataset", unsteady)
	_, err := m.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_SYNC, Source: "/in", Target: sources[name], Node: "n1"}})
	m.ask("write", err)
}

func (m *model) cancel() {
	a, err := m.ListTasks(root, &pb.ListTasksRequest{States: []pb.TaskState{task.Queued}})
	if err != nil {
		m.rt.Fatalf("%v", err)
	}
	if names := named(a.GetTasks()); len(names) > 0 {
		_, err := m.CancelTask(root, &pb.CancelTaskRequest{Id: names[m.pick("task", slices.Sorted(maps.Keys(names)))]})
		m.ask("cancel", err)
		m.settled()
	}
}

// named are tasks by what they do: their ids are others in each run.
func named(tasks []*pb.Task) map[string]string {
	names := map[string]string{}
	for _, t := range tasks {
		spec := t.GetSpec()
		names[fmt.Sprint(t.GetCreateTime().AsTime().Unix(), spec.GetKind(), spec.GetSource(), ">", spec.GetTarget(), spec.GetNode(), spec.GetStaging().GetDataset())] = t.GetId()
	}
	return names
}

// leads are the tasks that agents have.
func (m *model) leading() map[string]string {
	var tasks []*pb.Task
	for _, l := range m.taken {
		tasks = append(tasks, l.GetTask())
	}
	return named(tasks)
}

// settled forgets the wishes for tasks that have ended otherwise.
func (m *model) settled() {
	for id := range m.wishes {
		if task.Ended(m.state(id).GetState()) {
			delete(m.wishes, id)
		}
	}
}

func (m *model) begin() {
	m.give()
	m.settled() // some may not begin
}

func (m *model) end() {
	if len(m.taken) == 0 {
		m.begin()
	}
	if len(m.taken) == 0 {
		return
	}
	names := m.leading()
	m.work(names[m.pick("task", slices.Sorted(maps.Keys(names)))], m.pick("how", []string{"done", "done", "done", "failed", "lost"}))
}

// work does what the lead of a task does, and ends it.
func (m *model) work(id, how string) {
	spec := m.taken[id].GetSpec()
	from, to := slotOf(spec.GetSource(), m.nodeAt(spec.GetSource(), spec.GetNode())), slotOf(spec.GetTarget(), m.nodeAt(spec.GetTarget(), spec.GetNode()))
	m.counts[spec.GetKind().String()+" "+how]++
	m.rt.Logf("task %s %s: %v of %s (%d) to %s (%d)", id, how, spec.GetKind(), from, m.disk[from], to, m.disk[to])
	switch spec.GetKind() {
	case pb.TaskKind_TASK_KIND_RELEASE, pb.TaskKind_TASK_KIND_PURGE:
		if spec.GetOptions().GetChecksum() {
			if err := m.prove(id, m.disk[to]); err != nil {
				m.refuse(id, err)
				return
			}
		}
		if spec.GetSource() != "" && m.disk[from] != m.disk[to] { // it is looked at
			m.counts["survivor is not one"]++
			m.refuse(id, fmt.Errorf("%w: %s", mover.ErrCorrupt, from))
			return
		}
		m.deletes(id, to, how == "done")
	case pb.TaskKind_TASK_KIND_STAGE:
		if m.disk[to] = m.disk[from]; how != "done" {
			m.disk[to] = noise
		}
		from = to
	case pb.TaskKind_TASK_KIND_SYNC:
		m.alter(to)
	}
	if how == "lost" {
		m.scheduler.lose(context.Background(), m.scheduler.leads[id], "test")
		if err := m.finish(id, m.disk[from], mover.ErrHeld); !errors.Is(err, mover.ErrHeld) { // its worker has ended, and its agent says so
			m.rt.Fatalf("the end of a lead that is lost: %v", err)
		}
		return
	}
	wanted := m.wishes[id]
	delete(m.wishes, id)
	var failed error
	if how == "failed" {
		failed = mover.ErrTransient
	}
	if err := m.finish(id, m.disk[from], failed); err != nil {
		m.rt.Fatalf("finish: %v", err)
	}
	t := m.state(id)
	if !task.Ended(t.GetState()) {
		m.rt.Fatalf("it has not ended: %v", t)
	}
	if t.GetState() != task.Done {
		return
	}
	switch spec.GetKind() {
	case pb.TaskKind_TASK_KIND_DESCRIBE:
		delete(m.changed, from)
	case pb.TaskKind_TASK_KIND_STAGE: // one that was refused mends nothing
		delete(m.changed, to)
		delete(m.purged, to)
	}
	for _, w := range wanted {
		m.holds[w.holder] = hold{to, m.clock.Now().Add(w.ttl)}
	}
}

// nodeAt is the node that counts for a location.
func (m *model) nodeAt(at, node string) string {
	if strings.HasPrefix(at, "project:") || strings.HasPrefix(at, "archive:") {
		return ""
	}
	return node
}

// deletes removes bytes, all of them or not, and looks whether they may go.
func (m *model) deletes(id, to string, all bool) {
	for at := range m.disk {
		if at != to && !strings.HasPrefix(at, strings.TrimSuffix(to, ":")+"/") && !(strings.HasSuffix(to, ":") && strings.HasPrefix(at, to)) {
			continue
		}
		for holder, h := range m.holds {
			if h.slot == at && h.end.After(m.clock.Now()) {
				m.rt.Fatalf("task %s deletes %s, which %s holds until %v", id, at, holder, h.end)
			}
		}
		m.survives(id, at)
		m.disk[at] = noise
		if m.state(id).GetSpec().GetKind() == pb.TaskKind_TASK_KIND_PURGE { // if it fails
			m.dropped[at], m.purged[at] = true, true
		}
		if all {
			delete(m.disk, at)
			delete(m.dropped, at)
			delete(m.purged, at)
		}
	}
}

// survives looks for another copy of what is deleted.
func (m *model) survives(id, at string) {
	for _, r := range m.rows("") {
		if m.at(r) != at || r.GetCreateTime() == nil || m.disk[at] == noise {
			continue // nobody counts on it
		}
		if r.GetDataset() == "" {
			continue // what was staged of a dataset that is forgotten
		}
		if m.changed[at] && managed(r) {
			return // somebody has written where only this service does
		}
		if digestOf(m.disk[at]) != r.GetDigest() && m.state(id).GetSpec().GetKind() != pb.TaskKind_TASK_KIND_PURGE {
			m.rt.Fatalf("task %s deletes what is not %s", id, tag(r.GetDataset(), r.GetDigest()))
		}
		if m.betrayed[m.disk[at]] && r.GetTier() == "scratch" && m.state(id).GetSpec().GetSource() == "" {
			return // to make room
		}
		for _, other := range m.rows(r.GetDataset()) {
			there := m.at(other)
			if there != at && other.GetDigest() == r.GetDigest() && other.GetState() == whole && other.GetTier() != "scratch" && m.disk[there] == m.disk[at] {
				return
			}
		}
		if t := m.state(id); t.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_PURGE {
			return // nobody promises one
		}
		m.rt.Fatalf("task %s deletes the last copy of %s at %s", id, tag(r.GetDataset(), r.GetDigest()), at)
	}
}

// rows are the records of a dataset, or all.
func (m *model) rows(dataset string) []*pb.Replica {
	of := state.Range{}
	if dataset != "" {
		of.Prefix = []string{dataset}
	}
	var rows []*pb.Replica
	err := m.ledger.View(func(tx *state.Tx) (err error) {
		rows, err = state.Collect(state.Replicas.All(tx, of))
		return err
	})
	if err != nil {
		m.rt.Fatalf("%v", err)
	}
	return rows
}

func (m *model) time() {
	m.pass(rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Minute, time.Hour}).Draw(m.rt, "time"))
	m.tended()
}

// jump moves the clock of the machine, and no time.
func (m *model) jump() {
	m.wall = m.wall.Add(rapid.SampledFrom([]time.Duration{-100 * time.Hour, 100 * time.Hour}).Draw(m.rt, "jump"))
	m.tended()
}

// tended does what the service does now and then.
func (m *model) tended() {
	ctx := context.Background()
	if err := errors.Join(m.datasets.EndLeases(ctx), m.datasets.EndPins(ctx), m.datasets.OrphanLeases(ctx), m.datasets.RetryRemovals(ctx, m.wall.Add(1000*time.Hour)), m.datasets.SweepManifests(time.Now().Add(-datasetserver.ManifestYoung))); err != nil {
		m.rt.Fatalf("%v", err)
	}
	now := m.clock.Now()
	maps.DeleteFunc(m.holds, func(_ string, h hold) bool { return !h.end.After(now) })
}

// restart begins the service anew. Leases may have been given time.
func (m *model) restart() {
	before := m.clock.Now()
	m.close()
	m.open()
	now, listed := m.clock.Now(), m.leases()
	for holder, h := range m.holds {
		l := listed[holder]
		end := l.GetExpireTime().AsTime()
		switch {
		case h.end.After(now) && (l == nil || end.Before(h.end) || end.After(h.end) && end.After(now.Add(datasetserver.GraceMost))):
			m.rt.Fatalf("the lease of %s until %v is %v now", holder, h.end, l)
		case !h.end.After(before) && l != nil:
			m.rt.Fatalf("the lease of %s has ended at %v, and lasts again: %v", holder, h.end, l)
		case l == nil:
			delete(m.holds, holder)
		default:
			m.holds[holder] = hold{h.slot, end}
		}
	}
}

// check compares what the service says with what is true.
func (m *model) check() {
	listed, now := m.leases(), m.clock.Now()
	for holder, h := range m.holds {
		if l := listed[holder]; h.end.After(now) && (l == nil || !l.GetExpireTime().AsTime().Equal(h.end) || slotOf(l.GetLocation(), l.GetNode()) != h.slot) {
			m.rt.Fatalf("%s should hold %s until %v: %v", holder, h.slot, h.end, l)
		}
	}
	for holder, l := range listed {
		if _, known := m.holds[holder]; !known {
			m.rt.Fatalf("nobody knows of %v", l)
		}
	}
	for _, r := range m.rows("") {
		m.checkRow(r)
	}
	m.checkTasks()
}

func (m *model) checkRow(r *pb.Replica) {
	at := m.at(r)
	switch {
	case r.GetState() != whole && r.GetTask() == "":
		m.rt.Fatalf("nobody works on %v", r)
	case r.GetState() == whole && r.GetTask() != "" && !doubtful(r):
		m.rt.Fatalf("it is whole, and %v", r)
	case r.GetState() == whole && managed(r) && r.GetDataset() != "" && !m.changed[at] && !(m.purged[at] && doubtful(r)) && digestOf(m.disk[at]) != r.GetDigest(),
		r.GetState() == whole && r.GetLevel() == pb.Level_LEVEL_READ && !m.changed[at] && digestOf(m.disk[at]) != r.GetDigest():
		m.rt.Fatalf("it is said to be whole, and there is %d: %v", m.disk[at], r)
	}
	if _, err := os.Stat(m.manifest(r.GetDigest())); err != nil {
		m.rt.Fatalf("%v has no manifest: %v", r, err)
	}
}

// checkTasks: every removal and staging that lives has a replica, every wish and every
// hold of a task has a task that lives.
func (m *model) checkTasks() {
	err := m.ledger.View(func(tx *state.Tx) error {
		wishes, err := state.Collect(state.StageWaiters.All(tx, state.Range{}))
		if err != nil {
			return err
		}
		wished := 0
		for _, w := range m.wishes {
			wished += len(w)
		}
		over := slices.ContainsFunc(wishes, func(w *ledgerv1.Wish) bool { return !live(tx, w.GetTask()) })
		if over || len(wishes) < wished {
			return fmt.Errorf("wishes: %v, want %v", wishes, m.wishes)
		}
		for l, err := range state.Leases.All(tx, state.Range{}) {
			if id, ours := strings.CutPrefix(l.GetHolder(), state.TaskHolder); err != nil || ours && !live(tx, id) {
				return errors.Join(err, fmt.Errorf("task %s is over and holds %v", id, l))
			}
		}
		for t, err := range state.FindTasks(tx, state.TaskFilter{States: []pb.TaskState{task.Queued, task.Running}}) {
			if err != nil {
				return err
			}
			if k := t.GetSpec().GetKind(); k == pb.TaskKind_TASK_KIND_STAGE || k == pb.TaskKind_TASK_KIND_RELEASE {
				if r, err := workedOn(tx, t); err != nil || r.GetState() == whole && !(k == pb.TaskKind_TASK_KIND_STAGE && doubtful(r)) {
					return fmt.Errorf("%v has no replica: %v, %w", t, r, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		m.rt.Fatalf("%v", err)
	}
}

// rest brings everything to its end, and looks at what is left.
func (m *model) rest() {
	m.begin()
	for range 100 {
		for len(m.taken) > 0 {
			names := m.leading()
			m.work(names[slices.Sorted(maps.Keys(names))[0]], "done")
			m.begin()
		}
		m.tended()
		m.begin()
		if len(m.taken) == 0 {
			break
		}
	}
	for _, r := range m.rows("") {
		if r.GetState() != whole {
			m.rt.Fatalf("it never ends: %v, %v", r, m.state(r.GetTask()))
		}
	}
	known := map[string]bool{}
	for _, r := range m.rows("") {
		known[m.at(r)] = true
	}
	for at := range m.disk {
		_, text, _ := strings.Cut(at, "|")
		l, err := location.Parse(text)
		if err == nil && l.Scheme == location.InTier && mover.Within(l.Path, dataset.Datasets) && !known[at] && !m.dropped[at] {
			m.rt.Fatalf("%s is left, and nobody knows", at)
		}
	}
	m.check()
}

// TestDatasetModel does operations of everybody in an order by chance, and compares
// with what should be true after each. One order in five has a hundred operations, with
// DATAMOVE_SOAK=1 each, and with -short none.
//
//safety:4/datasets operations of everybody in an order by chance, sources and copies changed behind the service's back, clocks that jump, restarts, leads that fail and are lost: what is said to be whole has the content of its digest
//safety:5/datasets releases, evictions, purges, stagings, reads and overwrites in any order: the last copy of a version never goes by a release or an eviction from a tier that is not ephemeral, what is leased goes by nothing, and nothing is left of what was half done
func TestDatasetModel(t *testing.T) {
	counts := map[string]int{}
	operations, least := 0, []int{10, 10, 10, 10, 100}
	switch {
	case seed.Soak():
		least = least[4:]
	case testing.Short():
		least = least[:1]
	}
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{desk: newDesk(t, site(), authz.Input{}), rt: rt, changed: map[string]bool{}, betrayed: map[uint64]bool{}, holds: map[string]hold{}, wishes: map[string][]wish{}, dropped: map[string]bool{}, purged: map[string]bool{}, counts: counts, contents: 1000}
		m.desk.t = rt
		m.disk = map[string]uint64{m.sourceSlot("a"): 1, m.sourceSlot("b"): 2, m.sourceSlot("c"): 3}
		defer func() { m.forsake() }()
		all := map[string]func(){
			"add": m.add, "change": m.change, "spoil": m.spoil, "stage": m.stage, "acquire": m.acquire, "renew": m.renew, "drop": m.drop, "pin": m.pin, "unpin": m.unpin,
			"release": m.release, "purge": m.purge, "forget": m.forget, "too full": m.tooFull, "read": m.read, "write": m.write, "cancel": m.cancel,
			"begin": m.begin, "end": m.end, "time": m.time, "jump": m.jump, "restart": m.restart,
		}
		names := slices.Sorted(maps.Keys(all))
		for _, often := range []string{"stage", "release", "end"} {
			names = append(names, often, often, often, often)
		}
		for name := range sources {
			m.desk.add(root, name, sources[name], m.disk[m.sourceSlot(name)])
		}
		for range rapid.SampledFrom(least).Draw(rt, "least") + rapid.IntRange(0, 20).Draw(rt, "more") {
			m.pass(time.Millisecond) // so that later tasks have greater ids
			all[m.pick("operation", names)]()
			m.check()
			operations++
		}
		m.rest()
	})
	t.Logf("%d operations: %v", operations, counts)
}
