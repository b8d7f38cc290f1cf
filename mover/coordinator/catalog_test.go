package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/catalog"
)

// catalogued gives a desk a catalog.
func catalogued(t *testing.T, in authz.Input) *desk {
	d := newDesk(t, site(), in)
	c, err := catalog.Open(memoryDir(t), catalog.Options{})
	wants(t, "open", err, nil)
	t.Cleanup(func() { wants(t, "close", c.Close(), nil) })
	d.policies.Catalog = c
	d.serveDatasets()
	d.servePolicies()
	return d
}

// walkOf is what a walk of a tree sends.
func walkOf(tree *mem.Tree) []byte {
	var b bytes.Buffer
	if err := catalog.Send(context.Background(), &b, mem.New(tree, mem.Options{}), mover.WalkOptions{}); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// walkStream is the stream on which a lead sends a walk.
type walkStream struct {
	grpc.ServerStream
	ctx   context.Context
	first *agentv1.PutWalkRequest
	rest  io.Reader
	each  func() // called before each message but the first
}

func (s *walkStream) Context() context.Context { return s.ctx }

func (s *walkStream) Recv() (*agentv1.PutWalkRequest, error) {
	if r := s.first; r != nil {
		s.first = nil
		return r, nil
	}
	if s.each != nil {
		s.each()
	}
	b := make([]byte, 100)
	n, err := s.rest.Read(b)
	return &agentv1.PutWalkRequest{Data: b[:n]}, err
}

func (s *walkStream) SendAndClose(*agentv1.PutWalkResponse) error { return nil }

// walks sends a walk for a task.
func (d *desk) walks(id string, walk []byte) error {
	return d.catalog.PutWalk(&walkStream{ctx: asAgent(d.led[id]), first: &agentv1.PutWalkRequest{Task: id, Epoch: d.taken[id].GetEpoch()}, rest: bytes.NewReader(walk)})
}

// scans has a tier scanned, on each node that has it.
func (d *desk) scans(t *testing.T, tier string, tree *mem.Tree) {
	t.Helper()
	answer, err := d.catalog.ScanTier(root, &pb.ScanTierRequest{Tier: tier})
	wants(t, "scan", err, nil)
	d.give()
	for _, scan := range answer.GetTasks() {
		wants(t, "walk", d.walks(scan.GetId(), walkOf(tree)), nil)
		wants(t, "finish", d.finish(scan.GetId(), 0, nil), nil)
		if now := d.state(scan.GetId()); now.GetState() != task.Done {
			t.Fatalf("%v", now)
		}
	}
}

// founds collects the names that are found.
type founds struct {
	grpc.ServerStream
	ctx   context.Context
	names []string
}

func (f *founds) Context() context.Context { return f.ctx }

func (f *founds) Send(m *pb.FindFilesResponse) error {
	for _, file := range m.GetFiles() {
		f.names = append(f.names, string(file.GetName()))
	}
	return nil
}

func (d *desk) finds(ctx context.Context, q *pb.Question) ([]string, error) {
	f := &founds{ctx: ctx}
	err := d.catalog.FindFiles(&pb.FindFilesRequest{Question: q}, f)
	return f.names, err
}

func (d *desk) finding(t *testing.T, who string, ctx context.Context, q *pb.Question, want ...string) {
	t.Helper()
	got, err := d.finds(ctx, q)
	wants(t, who, err, nil)
	if !slices.Equal(got, want) {
		t.Errorf("%s finds %q, and not %q", who, got, want)
	}
	q.Match = "{kind: file}"
	got, err = d.finds(ctx, q)
	wants(t, who, err, nil)
	sum, err := d.catalog.SumFiles(ctx, &pb.SumFilesRequest{Question: q})
	wants(t, who, err, nil)
	if n := sum.GetSums()[0].GetFiles(); n != int64(len(got)) {
		t.Errorf("%s sums %d files, and finds %d", who, n, len(got))
	}
}

// TestScanTier: one scan at a time of each tree, done by who has it, and for nobody else's account.
//
//safety:4 with TestPutWalk
func TestScanTier(t *testing.T) {
	d := catalogued(t, authz.Input{})
	_, err := d.catalog.ScanTier(root, &pb.ScanTierRequest{Tier: "nowhere"})
	wants(t, "a tier that is none", err, mover.ErrUsage)
	first, err := d.catalog.ScanTier(as("ada", 1001), &pb.ScanTierRequest{Tier: "scratch"})
	wants(t, "scan", err, nil)
	again, err := d.catalog.ScanTier(root, &pb.ScanTierRequest{Tier: "scratch"})
	wants(t, "scan again", err, nil)
	var nodes []string
	for i, scan := range first.GetTasks() {
		nodes = append(nodes, scan.GetSpec().GetNode())
		if scan.GetOwner().GetUid() != authz.Self().UID || scan.GetSpec().GetLabels()[task.AskedBy] != "ada" || again.GetTasks()[i].GetId() != scan.GetId() {
			t.Errorf("%v\n%v", scan, again.GetTasks()[i])
		}
	}
	if !slices.Equal(nodes, []string{"n1", "n2"}) {
		t.Errorf("on %q", nodes)
	}
	one, err := d.catalog.ScanTier(root, &pb.ScanTierRequest{Tier: "scratch", Node: "n2"})
	wants(t, "scan of a node", err, nil)
	if one.GetTasks()[0].GetId() != first.GetTasks()[1].GetId() {
		t.Errorf("%v", one)
	}
	d.scans(t, "scratch", mem.NewTree().Files(map[string]string{"a": "1"}))
	scans, err := d.catalog.ListScans(root, &pb.ListScansRequest{Tier: "scratch"})
	wants(t, "list", err, nil)
	if len(scans.GetScans()) != 2 || scans.GetScans()[1].GetNode() != "n2" || scans.GetScans()[1].GetFiles() != 1 || scans.GetScans()[1].GetTime() == nil {
		t.Errorf("%v", scans)
	}
	third, err := d.catalog.ScanTier(root, &pb.ScanTierRequest{Tier: "scratch"})
	wants(t, "scan once more", err, nil)
	if third.GetTasks()[0].GetId() == first.GetTasks()[0].GetId() {
		t.Error("a scan that has ended is no new one")
	}
	d.policies.Catalog = nil
	d.servePolicies()
	_, err = d.catalog.ScanTier(root, &pb.ScanTierRequest{Tier: "scratch"})
	wants(t, "without a catalog", err, mover.ErrUnsupported)
}

// TestPutWalk: only the lead of a scan tells what is in a tier, to the end, and only then the scan is done.
//
//safety:4 a walk that is not of its lead, is cut, or is lost on the way: the tier does not count as scanned
func TestPutWalk(t *testing.T) {
	d := catalogued(t, authz.Input{})
	many := mem.NewTree()
	for _, name := range strings.Fields("a b c d e f g h i j k l m n") {
		many.Files(map[string]string{"dir/" + strings.Repeat(name, 50): name})
	}
	walk := walkOf(many)
	answer, err := d.catalog.ScanTier(root, &pb.ScanTierRequest{Tier: "project"})
	wants(t, "scan", err, nil)
	copying, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:a", Target: "project:b"}})
	wants(t, "copy", err, nil)
	d.give()
	id := answer.GetTasks()[0].GetId()
	epoch := d.taken[id].GetEpoch()
	send := func(agent, id string, epoch uint64, walk []byte, each func()) error {
		return d.catalog.PutWalk(&walkStream{ctx: asAgent(agent), first: &agentv1.PutWalkRequest{Task: id, Epoch: epoch}, rest: bytes.NewReader(walk), each: each})
	}
	other := map[string]string{"n1": "n2", "n2": "n1"}[d.led[id]]
	wants(t, "another agent", send(other, id, epoch, walk, nil), mover.ErrHeld)
	wants(t, "another epoch", send(d.led[id], id, epoch+1, walk, nil), mover.ErrHeld)
	wants(t, "a copy", send(d.led[copying.GetId()], copying.GetId(), d.taken[copying.GetId()].GetEpoch(), walk, nil), mover.ErrUsage)
	wants(t, "half of it", send(d.led[id], id, epoch, walk[:len(walk)/2], nil), mover.ErrCorrupt)
	wants(t, "what is none", send(d.led[id], id, epoch, []byte("p\x00\xff\xff\xff\xff\x7f"), nil), mover.ErrCorrupt)
	l := d.scheduler.leads[id]
	lost := 0
	wants(t, "lost on the way", send(d.led[id], id, epoch, walk, func() {
		if lost++; lost == 3 {
			delete(d.scheduler.leads, id)
		}
	}), mover.ErrHeld)
	d.scheduler.leads[id] = l

	_, err = d.finds(root, &pb.Question{Location: "project:"})
	wants(t, "half a scan", err, mover.ErrNotExist)
	wants(t, "finish", d.finish(id, 0, nil), nil)
	if now := d.state(id); now.GetState() != task.Failed || !strings.Contains(now.GetError(), "no walk to the end") {
		t.Errorf("%v", now)
	}
	d.pass(time.Minute)
	d.scans(t, "project", many)
	d.finding(t, "root", root, &pb.Question{Location: "project:dir/" + strings.Repeat("a", 50)}, strings.Repeat("a", 50))
	got, err := d.finds(root, &pb.Question{Location: "/lustre/project/dir"})
	wants(t, "find", err, nil)
	if len(got) != 14 || got[0] != strings.Repeat("a", 50) {
		t.Errorf("%q", got)
	}
	d.pass(time.Hour)
	answer, err = d.catalog.ScanTier(root, &pb.ScanTierRequest{Tier: "project"})
	wants(t, "scan", err, nil)
	d.give()
	wants(t, "a scan before is no scan of this task", d.finish(answer.GetTasks()[0].GetId(), 0, nil), nil)
	if now := d.state(answer.GetTasks()[0].GetId()); now.GetState() != task.Failed {
		t.Errorf("%v", now)
	}
}

// owned is a tree of files that belong to people.
func owned() *mem.Tree {
	tree := mem.NewTree()
	for name, uid := range map[string]uint32{"vision/ada": 1001, "vision/bob": 1002, "speech/ada": 1001} {
		tree.Put(mover.Entry{Name: name, Kind: mover.File, Known: mover.FactOwner, UID: uid}, []byte(name))
	}
	for _, dir := range []string{"vision", "speech"} {
		tree.Put(mover.Entry{Name: dir, Kind: mover.Dir, Known: mover.FactOwner}, nil)
	}
	return tree
}

// TestFilesOfOthers: who has no role for it sees what is its own, and only where a project lets it.
func TestFilesOfOthers(t *testing.T) {
	plain := catalogued(t, authz.Input{})
	plain.scans(t, "project", owned())
	plain.finding(t, "ada", as("ada", 1001), &pb.Question{Location: "project:"}, "speech/ada", "vision/ada")
	plain.finding(t, "bob", as("bob", 1002), &pb.Question{Location: "project:"}, "vision/bob")
	plain.finding(t, "eve", as("eve", 1003), &pb.Question{Location: "project:"})
	plain.finding(t, "eve, who asks for it", as("eve", 1003), &pb.Question{Location: "project:", Match: "{owner: ['1001']}"})
	plain.finding(t, "root", root, &pb.Question{Location: "project:"}, "speech", "speech/ada", "vision", "vision/ada", "vision/bob")

	d := catalogued(t, authz.Input{
		Projects: map[string]authz.Project{
			"vision":  {Roots: []string{"project:vision"}, Members: []string{"ada", "bob"}},
			"objects": {Roots: []string{"archive:"}, Members: []string{"bob"}},
		},
		Roles: map[string]authz.Role{"look": {Members: []string{"opal"}, May: []string{"catalog.read.any", "project.use"}}},
	})
	d.scans(t, "project", owned())
	bare := mem.NewTree()
	bare.Put(mover.Entry{Name: "key", Kind: mover.File}, nil)
	answer, err := d.catalog.ScanTier(root, &pb.ScanTierRequest{Tier: "archive"})
	wants(t, "scan", err, nil)
	d.give()
	var walk bytes.Buffer
	wants(t, "send", catalog.Send(t.Context(), &walk, mem.New(bare, mem.Options{ObjectStore: true}), mover.WalkOptions{}), nil)
	wants(t, "walk", d.walks(answer.GetTasks()[0].GetId(), walk.Bytes()), nil)
	wants(t, "finish", d.finish(answer.GetTasks()[0].GetId(), 0, nil), nil)

	d.finding(t, "ada", as("ada", 1001), &pb.Question{Location: "project:vision"}, "ada")
	for _, at := range []string{"project:", "project:speech", "project:vision/../speech", "/lustre/project/speech", "archive:", "/lustre/project/vision/../speech"} {
		if names, err := d.finds(as("ada", 1001), &pb.Question{Location: at}); err == nil {
			t.Errorf("ada finds %q at %s", names, at)
		}
	}
	d.finding(t, "opal", as("opal", 1009), &pb.Question{Location: "project:vision", Project: "vision"}, "ada", "bob")
	d.finding(t, "bob", as("bob", 1002), &pb.Question{Location: "archive:"}, "key") // which belongs to nobody
}

// TestGround: what the ledger knows of where a file lies can be asked for.
func TestGround(t *testing.T) {
	d := catalogued(t, authz.Input{Projects: map[string]authz.Project{
		"vision": {Roots: []string{"project:", "archive:"}, Members: []string{"ada"}}, "inner": {Roots: []string{"project:sets/inner"}}}})
	ada := as("ada", 1001)
	for i, name := range []string{"held", "pinned", "free"} {
		d.add(ada, name, "project:sets/"+name, uint64(i+1))
	}
	d.wall = d.wall.Add(time.Hour)
	_, err := d.datasets.AcquireLease(ada, &pb.AcquireLeaseRequest{Dataset: "held", Digest: digestOf(1), Tier: "project", Ttl: durationpb.New(time.Hour), Holder: "me"})
	wants(t, "lease", err, nil)
	_, err = d.datasets.Pin(ada, &pb.PinRequest{Source: "dataset:pinned", Until: timestamppb.New(d.wall.Add(time.Hour))})
	wants(t, "pin", err, nil)
	d.staged(ada, &pb.StageRequest{Source: "dataset:free", Tier: "archive"}, 3)

	tree := mem.NewTree().Files(map[string]string{"sets/held/f": "", "sets/pinned/sub/f": "", "sets/free/f": "", "sets/free-not/f": "", "sets/inner/f": ""})
	d.scans(t, "project", tree)
	for match, want := range map[string]string{
		"{leased: true, kind: file}":               "held/f",
		"{pinned: true, kind: file}":               "pinned/sub/f",
		"{replicasElsewhere: '>=1', kind: file}":   "free/f",
		"{project: [inner], kind: file}":           "inner/f",
		"{name: [f], leased: false}":               "free-not/f free/f inner/f pinned/sub/f",
		"{tier: [project], path: ['sets/held/*']}": "held/f",
	} {
		names, err := d.finds(root, &pb.Question{Location: "project:sets", Project: "vision", Match: match})
		wants(t, match, err, nil)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, and not %q", match, got, want)
		}
	}
}

// TestKeepScanned: a tier is scanned when the configuration says so, and not again and again when that fails.
func TestKeepScanned(t *testing.T) {
	d := catalogued(t, authz.Input{})
	tier := d.conf.Tiers["scratch"]
	tier.Scan = 24 * time.Hour
	d.conf.Tiers["scratch"] = tier
	round := func(want int) {
		t.Helper()
		wants(t, "keep", d.catalog.KeepScanned(t.Context()), nil)
		d.give()
		if len(d.taken) != want {
			t.Fatalf("%d scans, and not %d", len(d.taken), want)
		}
	}
	round(2)
	round(2)
	for id := range d.taken {
		wants(t, "finish", d.finish(id, 0, mover.ErrPermission), nil)
	}
	round(0)
	d.pass(10 * time.Minute)
	round(2)
	for id := range d.taken {
		wants(t, "walk", d.walks(id, walkOf(mem.NewTree().Files(map[string]string{"a": ""}))), nil)
		wants(t, "finish", d.finish(id, 0, nil), nil)
	}
	d.pass(23 * time.Hour)
	round(0)
	d.pass(2 * time.Hour)
	round(2)
}

// TestKeepVerified: what no feed told of is found, a part of the tree each hour, once in the time that the configuration says; somebody who asks for a scan gets one of all.
func TestKeepVerified(t *testing.T) {
	d := catalogued(t, authz.Input{})
	tier := d.conf.Tiers["project"]
	tier.Verify = 10 * day
	d.conf.Tiers["project"] = tier
	tree := mem.NewTree()
	for i := range 25_000 {
		tree.Files(map[string]string{fmt.Sprintf("d%d/%05d", i%10, i): ""})
	}
	parts := func(want int) (id string) {
		t.Helper()
		wants(t, "keep", d.catalog.KeepVerified(t.Context()), nil)
		d.give()
		if len(d.taken) != want {
			t.Fatalf("%d parts, and not %d", len(d.taken), want)
		}
		for id = range d.taken {
		}
		return id
	}
	parts(0) // it was never scanned
	d.scans(t, "project", tree)
	d.pass(9 * day)
	parts(0)
	d.pass(2 * day)
	tree.Files(map[string]string{"d3/nobody-told": ""})
	tree.Delete("d7/00007")
	state := func() catalog.State {
		s, err := d.policies.Catalog.State(catalog.Tree{Tier: "project"})
		wants(t, "state", err, nil)
		return s
	}
	before := state()
	for n := range 3 {
		id := parts(1)
		part := d.taken[id].GetSpec().GetScanPart()
		if part.GetEntries() < 10_000 || string(part.GetAfter()) != state().Rolled || (n == 0) != (len(part.GetAfter()) == 0) {
			t.Fatalf("part %d: %v", n, part)
		}
		if n == 1 {
			_, err := d.catalog.ScanTier(root, &pb.ScanTierRequest{Tier: "project"})
			wants(t, "scan", err, nil)
			d.give()
			if len(d.taken) != 2 {
				t.Fatal("who asks for a scan gets a part")
			}
			for other := range d.taken {
				if other != id {
					wants(t, "finish", d.finish(other, 0, mover.ErrPermission), nil)
				}
			}
		}
		wants(t, "a part of which nothing came", d.catalog.Done(d.state(id)), mover.ErrTransient)
		var walk bytes.Buffer
		wants(t, "walk", catalog.Send(t.Context(), &walk, mem.New(tree, mem.Options{}), mover.WalkOptions{After: string(part.GetAfter())}), nil)
		wants(t, "send", d.walks(id, walk.Bytes()), nil)
		wants(t, "finish", d.finish(id, 0, nil), nil)
		parts(0)
		d.pass(time.Hour)
	}
	parts(0)
	if now := state(); now.Rolled != "" || !now.Verified.After(before.Verified) || !now.Scanned.Equal(before.Scanned) {
		t.Errorf("%+v", now)
	}
	names, err := d.finds(root, &pb.Question{Location: "project:", Match: "{name: [nobody-told, '00007']}"})
	if wants(t, "find", err, nil); !slices.Equal(names, []string{"d3/nobody-told"}) {
		t.Errorf("%q", names)
	}
}

// TestForgetTrees: what was in a tier or on a node that is no more is forgotten.
func TestForgetTrees(t *testing.T) {
	d := catalogued(t, authz.Input{})
	d.scans(t, "project", mem.NewTree().Files(map[string]string{"a": ""}))
	d.scans(t, "scratch", mem.NewTree().Files(map[string]string{"a": ""}))
	wants(t, "scan of nobody's", func() error {
		_, err := d.policies.Catalog.Scan(t.Context(), catalog.Tree{Tier: "scratch", Node: "n9"}, mem.New(mem.NewTree(), mem.Options{}), catalog.ScanOptions{})
		return err
	}(), nil)
	delete(d.conf.Tiers, "project")
	wants(t, "forget", d.catalog.ForgetTrees(t.Context()), nil)
	states, err := d.policies.Catalog.Trees()
	wants(t, "trees", err, nil)
	if len(states) != 2 || states[0].Tree != (catalog.Tree{Tier: "scratch", Node: "n1"}) || states[1].Tree != (catalog.Tree{Tier: "scratch", Node: "n2"}) {
		t.Errorf("%v", states)
	}
}
