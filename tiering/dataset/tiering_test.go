package dataset

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const (
	whole    = datamovev1.ReplicaState_REPLICA_STATE_WHOLE
	staging  = datamovev1.ReplicaState_REPLICA_STATE_STAGING
	removing = datamovev1.ReplicaState_REPLICA_STATE_REMOVING

	server  = datamovev1.Level_LEVEL_SERVER
	read    = datamovev1.Level_LEVEL_READ
	written = datamovev1.Level_LEVEL_WRITTEN
)

var (
	digest1 = strings.Repeat("1f", 32)
	digest2 = strings.Repeat("2e", 32)
)

// cluster is the configuration that these tests are about: a tier on every node
// that is scratch, one that is not, a parallel file system with tiers in it, and stores.
func cluster() []*datamovev1.Tier {
	return []*datamovev1.Tier{
		{Name: "scratch", Level: "hot", Location: "/local_nvme", Node: "n1", Ephemeral: true},
		{Name: "scratch", Level: "hot", Location: "/local_nvme", Node: "n2", Ephemeral: true},
		{Name: "cache", Level: "hot", Location: "/cache", Node: "n1"},
		{Name: "cache", Level: "hot", Location: "/cache", Node: "n2"},
		{Name: "project", Level: "warm", Location: "/lustre/project"},
		{Name: "lustre", Level: "warm", Location: "/lustre/project/"}, // a second name
		{Name: "team", Level: "warm", Location: "/lustre/project/team"},
		{Name: "temp", Level: "warm", Location: "/lustre/project/temp", Ephemeral: true},
		{Name: "kept", Level: "warm", Location: "/lustre/project/temp/kept"},
		{Name: "archive", Level: "cold", Location: "s3://archive/data"},
		{Name: "bucket", Level: "cold", Location: "s3://archive"},
		{Name: "cloud", Level: "cold", Location: "s3://cloud"},
	}
}

type change func(*datamovev1.Replica)

// at makes a whole and verified replica at a location; that of a tier is on it.
func at(where string, changes ...change) *datamovev1.Replica {
	tier, _, ok := strings.Cut(where, ":")
	if !ok || tier == "s3" {
		tier = ""
	}
	r := &datamovev1.Replica{Dataset: "vision", Digest: digest1, Tier: tier, Location: where, State: whole, Level: server, Bytes: 100,
		CreateTime: timestamppb.New(noon.Add(-24 * time.Hour))}
	for _, c := range changes {
		c(r)
	}
	return r
}

func in(state datamovev1.ReplicaState) change { return func(r *datamovev1.Replica) { r.State = state } }
func level(l datamovev1.Level) change         { return func(r *datamovev1.Replica) { r.Level = l } }
func on(node string) change                   { return func(r *datamovev1.Replica) { r.Node = node } }
func of(dataset string) change                { return func(r *datamovev1.Replica) { r.Dataset = dataset } }
func version2(r *datamovev1.Replica)          { r.Digest = digest2 }
func tiered(tier string) change               { return func(r *datamovev1.Replica) { r.Tier = tier } }
func task(id string) change                   { return func(r *datamovev1.Replica) { r.Task = id } }
func bytes(n int64) change                    { return func(r *datamovev1.Replica) { r.Bytes = n } }
func used(ago time.Duration) change {
	return func(r *datamovev1.Replica) { r.UseTime = timestamppb.New(noon.Add(-ago)) }
}
func pinnedFor(d time.Duration) change {
	return func(r *datamovev1.Replica) { r.PinnedUntil = timestamppb.New(noon.Add(d)) }
}

// lasting makes a lease on r.
func lasting(r *datamovev1.Replica, ttl time.Duration) *datamovev1.Lease {
	return &datamovev1.Lease{Id: "L7", Dataset: r.Dataset, Digest: r.Digest, Tier: r.Tier, Node: r.Node, Location: r.Location,
		Holder: "slurm:1234", Owner: &datamovev1.Account{Name: "ada", Uid: 1001}, ExpireTime: timestamppb.New(noon.Add(ttl))}
}

func pin(dataset, digest, tier string, d time.Duration) *datamovev1.PinInfo {
	return &datamovev1.PinInfo{Dataset: dataset, Digest: digest, Tier: tier, Until: timestamppb.New(noon.Add(d)), Reason: "paper",
		Owner: &datamovev1.Account{Name: "ada"}}
}

func facts(replicas ...*datamovev1.Replica) Facts {
	return Facts{Now: noon, Tiers: cluster(), Replicas: replicas}
}

func leasing(f Facts, leases ...*datamovev1.Lease) Facts {
	f.Leases = append(f.Leases, leases...)
	return f
}

func pinning(f Facts, pins ...*datamovev1.PinInfo) Facts {
	f.Pins = append(f.Pins, pins...)
	return f
}

func tiers(f Facts, more ...*datamovev1.Tier) Facts {
	f.Tiers = append(f.Tiers, more...)
	return f
}

// said checks an answer: its kind, and the words that a person needs.
func said(t *testing.T, what string, err, kind error, words ...string) {
	t.Helper()
	if kind == nil {
		if err != nil {
			t.Errorf("%s: %v, want yes", what, err)
		}
		return
	}
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, want kind %v", what, err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %q does not say %q", what, err, word)
		}
	}
	var e *mover.Error
	if !errors.As(err, &e) || e.Op == "" || e.Location == "" {
		t.Errorf("%s: %q does not say what and where", what, err)
	}
}

// TestMayRelease is the rule: the first replica is asked for.
func TestMayRelease(t *testing.T) {
	warm, cold := at("project:v"), at("archive:v")
	for _, c := range []struct {
		what  string
		facts Facts
		kind  error // nil is yes
		words string
	}{
		{"safe in a store", facts(warm, cold), nil, ""},
		{"safe, and it was read again", facts(warm, at("archive:v", level(read))), nil, ""},
		{"safe outside of the tiers", facts(warm, at("s3://backup/v")), nil, ""},
		{"safe on another tier of the node", facts(at("scratch:v", on("n1")), at("cache:v", on("n1"))), nil, ""},
		{"from the store, safe on the file system", facts(cold, warm), nil, ""},
		{"one of the others is enough", facts(warm, at("cloud:v", level(written)), at("team:v", in(staging)), cold), nil, ""},

		{"the only copy", facts(warm), mover.ErrRefused, "only copy"},
		{"other datasets do not help", facts(warm, at("archive:v", of("audio"))), mover.ErrRefused, "only copy"},
		{"nor other versions", facts(warm, at("archive:v", version2)), mover.ErrRefused, "only copy"},
		{"a copy that nobody compared", facts(warm, at("archive:v", level(written))), mover.ErrRefused, "archive:v was not verified"},
		{"a clone", facts(warm, at("archive:v", level(datamovev1.Level_LEVEL_CLONED))), mover.ErrRefused, "not verified"},
		{"a level of a later version of us", facts(warm, at("archive:v", level(99))), mover.ErrRefused, "not verified"},
		{"a copy on its way", facts(warm, at("archive:v", in(staging))), mover.ErrRefused, "not whole"},
		{"a copy that goes, too", facts(warm, at("archive:v", in(removing))), mover.ErrRefused, "being removed"},
		{"a copy on scratch", facts(warm, at("scratch:v", on("n1"))), mover.ErrRefused, "ephemeral"},
		{"outside, but below scratch", facts(warm, at("/local_nvme/v", on("n7"))), mover.ErrRefused, "ephemeral"},
		{"on a good tier, but below scratch", facts(at("archive:v"), at("project:temp/v")), mover.ErrRefused, "ephemeral"},
		{"in a tier within scratch", facts(at("archive:v"), at("kept:v")), mover.ErrRefused, "ephemeral"},
		{"a copy with scratch in it", facts(at("archive:v"), at("/lustre/project")), mover.ErrRefused, "ephemeral"},
		{"the same tier on another node", facts(at("cache:v", on("n1")), at("cache:v", on("n2"))), mover.ErrRefused, "same tier"},
		{"a tier that is gone", facts(warm, at("old:v")), mover.ErrRefused, "can not be found"},
		{"a record that contradicts itself", facts(warm, at("/home/v", tiered("archive"))), mover.ErrRefused, "can not be found"},
		{"a relative path", facts(warm, at("v")), mover.ErrRefused, "can not be found"},
		{"dots", facts(warm, at("/home/../srv/v")), mover.ErrRefused, "can not be found"},

		{"two names of one location", facts(warm, at("lustre:v")), mover.ErrConflict, "same place"},
		{"by path", facts(warm, at("/lustre/project/v/")), mover.ErrConflict, "same place"},
		{"by a path with dots", facts(warm, at("/home/../lustre/project/v")), mover.ErrConflict, "same place"},
		{"by a tier within", facts(at("project:team/v"), at("team:v")), mover.ErrConflict, "same place"},
		{"by bucket", facts(cold, at("s3://archive/data/v")), mover.ErrConflict, "same place"},
		{"by a tier around it", facts(cold, at("bucket:data/v")), mover.ErrConflict, "same place"},
		{"two names, and a third copy", facts(warm, at("lustre:v"), cold), mover.ErrConflict, "lustre:v"},
		{"two names of one tier", facts(warm, at("lustre:w")), mover.ErrRefused, "same tier"},
		{"another dataset lies in it", facts(warm, at("project:v/part", of("part")), cold), mover.ErrConflict, "part"},
		{"it lies in another dataset", facts(at("project:all/v"), at("project:all", of("all")), cold), mover.ErrConflict, "all"},
		{"a tier lies in it", facts(at("bucket:data"), warm), mover.ErrConflict, "tier archive"},
		{"it is a tier", facts(at("cloud:"), warm), mover.ErrConflict, "tier cloud"},

		{"leased", leasing(facts(warm, cold), lasting(warm, time.Minute)), mover.ErrHeld, "slurm:1234 needs it until 2026-01-02T12:01:00Z (lease L7 of ada)"},
		{"the lease of the copy does not count", leasing(facts(warm, cold), lasting(cold, time.Minute)), nil, ""},
		{"leased until now", leasing(facts(warm, cold), lasting(warm, 0)), nil, ""},
		{"leased by another name", leasing(facts(warm, cold), lasting(at("/lustre/project/v"), time.Minute)), mover.ErrHeld, "L7"},
		{"leased, a part of it", leasing(facts(warm, cold), lasting(at("project:v/part", of("part")), time.Minute)), mover.ErrHeld, "L7"},
		{"leased, where is not told", leasing(facts(warm, cold), lasting(at("project:", func(r *datamovev1.Replica) { r.Location = "" }), time.Minute)), mover.ErrHeld, "L7"},
		{"leased on another node", leasing(facts(at("cache:v", on("n1")), cold), lasting(at("cache:v", on("n2")), time.Minute)), nil, ""},
		{"leased on this node", leasing(facts(at("cache:v", on("n1")), cold), lasting(at("cache:v", on("n1")), time.Minute)), mover.ErrHeld, "L7"},
		{"leased on a node that is not told", leasing(facts(at("cache:v", on("n1")), cold), lasting(at("cache:v"), time.Minute)), mover.ErrHeld, "L7"},
		{"a lease from a node on what all share", leasing(facts(warm, cold), lasting(at("project:v", on("n9")), time.Minute)), mover.ErrHeld, "L7"},

		{"pinned", pinning(facts(warm, cold), pin("vision", digest1, "project", time.Hour)), mover.ErrRefused, "pinned until 2026-01-02T13:00:00Z by ada (paper)"},
		{"every version is pinned", pinning(facts(warm, cold), pin("vision", "", "project", time.Hour)), mover.ErrRefused, "unpin dataset:vision"},
		{"on every tier", pinning(facts(warm, cold), pin("vision", digest1, "", time.Hour)), mover.ErrRefused, "pinned"},
		{"pinned by its record", facts(at("project:v", pinnedFor(time.Hour)), cold), mover.ErrRefused, "pinned"},
		{"a pin without an end", pinning(facts(warm, cold), &datamovev1.PinInfo{Dataset: "vision"}), mover.ErrRefused, "without an end"},
		{"pinned until now", pinning(facts(warm, cold), pin("vision", digest1, "project", 0)), nil, ""},
		{"another version is pinned", pinning(facts(warm, cold), pin("vision", digest2, "", time.Hour)), nil, ""},
		{"on another tier", pinning(facts(warm, cold), pin("vision", digest1, "archive", time.Hour)), nil, ""},
		{"another dataset is pinned", pinning(facts(warm, cold), pin("visions", "", "", time.Hour)), nil, ""},

		{"not whole", facts(at("project:v", in(staging)), cold), mover.ErrConflict, "on its way"},
		{"going already", facts(at("project:v", in(removing)), cold), mover.ErrConflict, "being removed"},
		{"a state that is not known", facts(at("project:v", in(42)), cold), mover.ErrConflict, "42"},
		{"a task works on it", facts(at("project:v", task("t9")), cold), mover.ErrConflict, "task t9"},
		{"the task that asks works on it", facts(at("project:v", task("t1")), cold), nil, ""},
		{"and goes on", facts(at("project:v", task("t1"), in(removing)), cold), nil, ""},
		{"but not when the copy is gone meanwhile", facts(at("project:v", task("t1"), in(removing))), mover.ErrRefused, "only copy"},

		{"outside of the tiers", facts(at("/home/v"), cold), mover.ErrRefused, "datamove rm"},
		{"without a digest", facts(at("project:v", func(r *datamovev1.Replica) { r.Digest = "" }), at("archive:v", func(r *datamovev1.Replica) { r.Digest = "" })),
			mover.ErrRefused, "no digest"},
		{"recorded on a tier that it is not on", facts(at("/home/v", tiered("project")), cold), mover.ErrRefused, "is not there"},
		{"a node that is not told", facts(at("cache:v"), cold), mover.ErrRefused, "is not there"},
		{"recorded twice", facts(warm, at("project:v", in(staging)), cold), mover.ErrConflict, "twice"},
		{"something lies in it, by a name with dots", facts(warm, cold, at("/home/../lustre/project/v/x", of("dots"))), mover.ErrConflict, "dots"},
		{"something lies in it that is recorded elsewhere", facts(warm, cold, at("project:v/x", of("odd"), tiered("archive"))), mover.ErrConflict, "odd"},
		{"something on the tier can be anywhere", facts(warm, cold, at("project:", of("lost"), func(r *datamovev1.Replica) { r.Location = "a/b" })), mover.ErrConflict, "lost"},
		{"a tier that can be anywhere", tiers(facts(warm, cold), &datamovev1.Tier{Name: "odd", Location: "relative"}), mover.ErrRefused, "tier odd"},
		{"a tier that is in two places", tiers(facts(warm, cold), &datamovev1.Tier{Name: "project", Location: "/other"}), mover.ErrRefused, "node to node"},
	} {
		said(t, c.what, Look(c.facts).MayRelease(c.facts.Replicas[0], "t1"), c.kind, c.words)
	}
	if err := Look(facts(cold)).MayRelease(warm, ""); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("a replica that is not recorded: %v", err)
	}
	stale := at("project:v")
	if err := Look(facts(at("project:v", in(removing)), cold)).MayRelease(stale, ""); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("the caller remembers another state than the ledger: %v", err)
	}
}

// TestHostileWords puts words into an error that would forge a line of a terminal.
func TestHostileWords(t *testing.T) {
	warm := at("project:v")
	l := lasting(warm, time.Hour)
	l.Holder, l.Id = "me\x1b[2J\nrelease project:w: done", "\x00"
	p := pin("vision", "", "", time.Hour)
	p.Reason = "\x1b]0;\a"
	for _, f := range []Facts{leasing(facts(warm), l), pinning(facts(warm), p), facts(warm, at("archive:\x1b[31m", level(written)))} {
		f.Replicas = append(f.Replicas, at("archive:v", in(staging), func(r *datamovev1.Replica) { r.Location = "archive:\x1b[2J" }))
		if err := Look(f).MayRelease(warm, ""); err == nil || strings.ContainsFunc(err.Error(), func(c rune) bool { return c < ' ' }) {
			t.Errorf("%q", err)
		}
	}
}

func TestMayPurge(t *testing.T) {
	job := at("scratch:job/v", on("n1"))
	for _, c := range []struct {
		what  string
		where string
		node  string
		root  bool
		facts Facts
		kind  error
		words string
	}{
		{"scratch of a job", "scratch:job", "n1", false, facts(), nil, ""},
		{"a dataset that nobody needs, though it is the only copy", "scratch:job", "n1", false, facts(job), nil, ""},
		{"a tier within another one", "temp:x", "", false, facts(at("project:v")), nil, ""},
		{"all of it, said so", "scratch:", "n1", true, facts(job), nil, ""},
		{"a lease on another node", "scratch:job", "n2", false, leasing(facts(job), lasting(job, time.Hour)), nil, ""},
		{"a lease beside it", "scratch:job2", "n1", false, leasing(facts(job), lasting(job, time.Hour)), nil, ""},
		{"a lease that is over", "scratch:job", "n1", false, leasing(facts(job), lasting(job, 0)), nil, ""},

		{"not said so", "scratch:", "n1", false, facts(), mover.ErrRefused, "whole tier"},
		{"not ephemeral", "project:x", "", false, facts(), mover.ErrRefused, "not marked ephemeral"},
		{"a path", "/local_nvme/x", "n1", false, facts(), mover.ErrUsage, "TIER:path"},
		{"a bucket", "s3://cloud/x", "", false, facts(), mover.ErrUsage, "TIER:path"},
		{"no such tier", "skratch:x", "n1", false, facts(), mover.ErrNotExist, "no such tier"},
		{"which node", "scratch:x", "", false, facts(), mover.ErrUsage, "which node"},
		{"another tier is in it", "temp:", "", true, facts(), mover.ErrConflict, "tier kept"},
		{"it is another tier", "temp:kept", "", false, facts(), mover.ErrConflict, "tier kept"},
		{"it is in another tier", "temp:kept/x", "", false, facts(), mover.ErrConflict, "tier kept"},
		{"its root is one that is kept", "twin:x", "", false, tiers(facts(), &datamovev1.Tier{Name: "twin", Location: "/lustre/project/team", Ephemeral: true}), mover.ErrConflict, "tier team"},
		{"the root of the file system", "all:etc", "", false, tiers(facts(), &datamovev1.Tier{Name: "all", Location: "/", Ephemeral: true}), mover.ErrRefused, "whole file system"},
		{"a tier that can be anywhere", "scratch:x", "n1", false, tiers(facts(), &datamovev1.Tier{Name: "odd", Location: "../x"}), mover.ErrRefused, "tier odd"},

		{"leased", "scratch:job", "n1", false, leasing(facts(job), lasting(job, time.Hour)), mover.ErrHeld, "slurm:1234"},
		{"leased, somewhere in it", "scratch:", "n1", true, leasing(facts(job), lasting(job, time.Hour)), mover.ErrHeld, "slurm:1234"},
		{"leased, around it", "scratch:job/v/part", "n1", false, leasing(facts(job), lasting(job, time.Hour)), mover.ErrHeld, "slurm:1234"},
		{"leased by its path", "temp:v", "", false, leasing(facts(), lasting(at("/lustre/project/temp/v", on("n4")), time.Hour)), mover.ErrHeld, "slurm:1234"},
		{"leased, and its replica is not recorded", "scratch:job", "n1", false, leasing(facts(), lasting(job, time.Hour)), mover.ErrHeld, "slurm:1234"},
		{"leased, where is not told", "scratch:else", "n1", false, leasing(facts(), &datamovev1.Lease{Tier: "scratch", Holder: "pod:1"}), mover.ErrHeld, "pod:1"},
		{"pinned", "scratch:job", "n1", false, pinning(facts(job), pin("vision", "", "", time.Hour)), mover.ErrRefused, "pinned"},
		{"pinned on another tier", "scratch:job", "n1", false, pinning(facts(job), pin("vision", "", "project", time.Hour)), nil, ""},
		{"on its way", "scratch:job", "n1", false, facts(at("scratch:job/v", on("n1"), in(staging))), mover.ErrConflict, "on its way"},
		{"a task works on it", "scratch:job", "n1", false, facts(at("scratch:job/v", on("n1"), task("t9"))), mover.ErrConflict, "task t9"},
		{"the task that asks", "scratch:job", "n1", false, facts(at("scratch:job/v", on("n1"), task("t1"), in(removing))), nil, ""},
		{"a part of a replica", "scratch:job/v/part", "n1", false, facts(job), mover.ErrConflict, "a part of dataset vision"},
		{"a dataset of another tier", "temp:v", "", false, facts(at("project:temp/v")), mover.ErrConflict, "not recorded as ephemeral"},
		{"a dataset of no tier", "temp:v", "", false, facts(at("/lustre/project/temp/v")), mover.ErrConflict, "not recorded as ephemeral"},
		{"something on the tier can be anywhere", "scratch:x", "n1", false, facts(at("scratch:v", func(r *datamovev1.Replica) { r.Location = "v" })), mover.ErrConflict, "can not be told"},
		{"a record that contradicts itself", "scratch:v", "n1", false, facts(at("scratch:v")), mover.ErrConflict, "may be there"},
		{"dots", "temp:v", "", false, facts(at("/home/../lustre/project/temp/v")), mover.ErrConflict, "not recorded as ephemeral"},
	} {
		err := Look(c.facts).MayPurge(Purge{Location: parse(t, c.where), Node: c.node, Root: c.root, Task: "t1"})
		said(t, c.what, err, c.kind, c.words)
	}
	for _, path := range []string{"..", "../x", "x/../..", "/", "x//y", ".", "x\x00"} {
		l := parse(t, "scratch:x")
		l.Path = path // not made by Parse
		if err := Look(facts()).MayPurge(Purge{Location: l, Node: "n1", Root: true}); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("purge of scratch:%s: %v", path, err)
		}
	}
}

func TestOverlapping(t *testing.T) {
	v := Look(facts(at("project:a"), at("team:b"), at("project:team/b/c"), at("/lustre/project/ab"), at("archive:a"), at("cache:a", on("n1")), at("/cache/a", on("n2"))))
	for _, c := range []struct {
		where, node string
		want        []string
	}{
		{"project:a", "", []string{"project:a"}},
		{"/lustre/project/a/x", "n3", []string{"project:a"}},
		{"project:team", "", []string{"team:b", "project:team/b/c"}},
		{"team:b/c/d", "", []string{"team:b", "project:team/b/c"}},
		{"/lustre", "", []string{"project:a", "team:b", "project:team/b/c", "/lustre/project/ab"}},
		{"bucket:", "", []string{"archive:a"}},
		{"s3://archive", "", []string{"archive:a"}},
		{"s3://archive/dat", "", nil},
		{"/cache", "n2", []string{"/cache/a"}},
		{"/cache", "", []string{"cache:a", "/cache/a"}},
		{"cache:b", "n1", nil},
	} {
		found, err := v.Overlapping(parse(t, c.where), c.node)
		var got []string
		for _, r := range found {
			got = append(got, r.Location)
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s on %q: %q, %v; want %q", c.where, c.node, got, err, c.want)
		}
	}
	if _, err := v.Overlapping(parse(t, "relative"), ""); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("a relative path: %v", err)
	}
}
