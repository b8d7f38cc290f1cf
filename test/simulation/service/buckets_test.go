package service

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/checksum"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/memnet"
	"datamove.dev/test/must"
	"datamove.dev/test/s3server"
)

var bucketDeeds = []deed{{"up", 8}, {"up sync", 4}, {"back", 3}, {"across", 3}, {"alter", 3}, {"unlink", 2}, {"refuse", 2}}

const (
	vaults      = 2
	bucketName  = "bucket"
	storeAt     = "127.0.0.1:9" // in memory
	stopBetween = 900 * time.Millisecond
	staleAfter  = 3 * time.Minute // a lock in a bucket has no holder any more
)

// buckets are copies to and from a tier that is an S3 bucket, over the transport of the product, to a server that is slow, refuses, and breaks off.
type buckets struct {
	*running
	server s3server.Server
	vaults [vaults]*vault
	moved  []moved
	events int                  // of the server's log that were looked at
	newest map[string]int       // how new the content of an object is, by its key
	read   map[string]bool      // copies that were asked for, from the bucket to files
	fates  sky                  // counts calls
	odds   odds                 //
	fair   atomic.Bool          // nothing goes wrong any more
	busy   atomic.Pointer[busy] // nil is not
}

// odds are the chances of what happens to a call of the store.
type odds struct {
	late, slow, refused, cut, lost float64
	longest                        time.Duration
}

// busy is a store that refuses each call, or each one of an operation.
type busy struct{ code, op string }

// vault is a tree that goes to the bucket. Each change of a file makes a content that it never had.
type vault struct {
	dir     string
	now     map[string]uint64   // CRC-64/NVME by name
	ever    map[string][]uint64 // all that there were, the oldest first
	changed time.Time
}

// moved is a copy that was asked for.
type moved struct {
	*asked
	from, to string
	vault    int
	sync     bool
}

func (r *buckets) configure(c *config.Config) {
	dir := filepath.Dir(c.Tiers["shared"].Path)
	keys := filepath.Join(dir, "keys.env")
	must.Do(r.t, os.WriteFile(keys, []byte("AWS_ACCESS_KEY_ID=test\nAWS_SECRET_ACCESS_KEY=test\n"), 0o600))
	c.Tiers["cloud"] = config.Tier{Level: "cold", S3: &config.S3{Endpoint: "http://" + storeAt, Bucket: bucketName, Credentials: "file:" + keys}}
	rng := rand.New(rand.NewPCG(r.w.seed, 41))
	c.Limits = append(c.Limits, config.Limit{Endpoint: "cloud", Direction: "write", Rate: []config.Rate{1 << 20, 8 << 20, 64 << 20}[rng.IntN(3)]})
	chance := func(most float64) float64 { return most * rng.Float64() * float64(rng.IntN(2)) }
	r.odds = odds{late: chance(0.3), slow: chance(0.5), refused: chance(0.05), cut: chance(0.03), lost: chance(0.05),
		longest: []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, stopBetween}[rng.IntN(3)]}
	r.server.Salted = rng.IntN(3) == 0
	r.server.Fate = r.fate
}

func (r *buckets) begin() {
	if r.Stores == nil {
		r.Stores = memnet.New(r.t)
	}
	r.Stores.Serve(storeAt, &r.server)
	r.newest, r.read = map[string]int{}, map[string]bool{}
	r.fates = sky{w: &r.w, seen: map[string]uint64{}}
	rng := rand.New(rand.NewPCG(r.w.seed, 42))
	for i := range r.vaults {
		v := &vault{dir: filepath.Join(r.Dir, "shared", fmt.Sprint("vault", i)), now: map[string]uint64{}, ever: map[string][]uint64{}}
		r.vaults[i] = v
		must.Do(r.t, os.MkdirAll(v.dir, 0o755))
		put := func(name string, size int) {
			data := make([]byte, size+7)
			for j := 0; j < size; j += 8 {
				binary.LittleEndian.PutUint64(data[j:], rng.Uint64())
			}
			r.put(v, name, data[:size])
		}
		put("always", 10)
		for n := range rng.IntN(12) {
			put(fmt.Sprintf("d%d/f%d", n%3, n), rng.IntN(3000))
		}
		for n := range rng.IntN(3) {
			put(fmt.Sprintf("d%d/large%d", n, n), 17<<20+rng.IntN(20<<20)) // of more than one part
		}
	}
	r.pending = append(r.pending, mending{time.Now().Add(10000 * time.Hour), func() bool { r.fair.Store(true); return true }, "fair"})
}

func (r *buckets) put(v *vault, name string, data []byte) {
	path := filepath.Join(v.dir, name)
	must.Do(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	sum := checksum.Update(0, data)
	v.ever[name] = append(v.ever[name], sum) // before it can be read
	must.Do(r.t, os.WriteFile(path, data, 0o644))
	v.now[name], v.changed = sum, time.Now()
}

// fate is that of a call of a worker.
func (r *buckets) fate(c s3server.Call) (f s3server.Fate) {
	agentName, _, worker := strings.Cut(c.From, "/")
	if !worker || r.fair.Load() {
		return f
	}
	d, o := r.fates.dice(agentName+" "+c.Op), &r.odds
	if d.Float64() < o.late {
		f.Late = time.Duration(d.Int64N(int64(o.longest)))
	}
	if d.Float64() < o.slow {
		f.Slow = time.Duration(d.Int64N(int64(o.longest)))
	}
	if d.Float64() < o.refused {
		f.Refused = []string{"InternalError", "ServiceUnavailable", "SlowDown"}[d.IntN(3)]
	}
	f.Cut = d.Float64() < o.cut
	f.Lost = d.Float64() < o.lost
	if b := r.busy.Load(); b != nil && (b.op == "" || b.op == c.Op) {
		f.Refused = b.code
	}
	return f
}

func (r *buckets) do(s step) {
	i := s.a % vaults
	v := r.vaults[i]
	switch s.do {
	case "up", "up sync":
		r.move(fmt.Sprint("shared:vault", i), fmt.Sprint("cloud:dst", i), i, s.do == "up sync")
	case "back":
		r.move(fmt.Sprint("cloud:dst", i), fmt.Sprint("shared:back", i), i, false)
	case "across":
		r.move(fmt.Sprint("cloud:dst", i), fmt.Sprint("cloud:second", i), i, s.b%2 == 0)
	case "alter", "unlink":
		names := slices.Sorted(maps.Keys(v.now))
		name := names[s.b%len(names)]
		path := filepath.Join(v.dir, name)
		if s.do == "unlink" {
			if name != "always" {
				must.Do(r.t, os.Remove(path))
				delete(v.now, name)
				v.changed = time.Now()
			}
			return
		}
		data, err := os.ReadFile(path)
		must.Do(r.t, err)
		r.put(v, name, append(data, byte(s.c), byte(len(data))))
	case "refuse":
		ops := []string{"", "UploadPart", "CompleteMultipartUpload", "AbortMultipartUpload", "PutObject", "DeleteObject", "ListObjectsV2", "GetObject"}
		r.busy.Store(&busy{[]string{"InternalError", "SlowDown"}[s.a%2], ops[s.b%len(ops)]})
		r.later(s.c, s.do, func() bool { r.busy.Store(nil); return true })
	}
}

func (r *buckets) move(from, to string, i int, sync bool) {
	r.n++
	req := &pb.SubmitTaskRequest{IdempotencyKey: fmt.Sprint("key", r.n), Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: from, Target: to}}
	if sync {
		req.Spec.Kind, req.Spec.Options = pb.TaskKind_TASK_KIND_SYNC, &pb.Options{RemoveExtra: true}
	}
	a := &asked{what: fmt.Sprintf("%v %s to %s", req.Spec.Kind, from, to), call: func(ctx context.Context, c *api.Client) (string, error) {
		t, err := c.Submit(ctx, req)
		return t.GetId(), err
	}}
	r.moved = append(r.moved, moved{a, from, to, i, sync})
	r.ask(a)
}

// check looks at what became visible since the last time: each content is one of its name, and no older one replaces a newer one.
func (r *buckets) check() {
	for _, e := range r.server.Log(r.events) {
		r.events++
		i, name, ours := objectOf(e.Key)
		if !ours {
			continue
		}
		if e.Gone {
			continue
		}
		at := slices.Index(r.vaults[i].ever[name], e.CRC)
		if at < 0 {
			r.t.Errorf("%v: %s wrote %s with a content that no source ever had by this name", e.At, e.From, e.Key)
		} else if at < r.newest[e.Key] {
			r.t.Errorf("%v: %s wrote %s as it was, when it had been written as it is now", e.At, e.From, e.Key)
		}
		r.newest[e.Key] = at
	}
	for i, v := range r.vaults {
		for name, sum := range r.files(fmt.Sprint("back", i)) {
			if !slices.Contains(v.ever[name], sum) {
				r.t.Errorf("shared:back%d has %s with a content that no source ever had by this name", i, name)
			}
		}
	}
}

// objectOf is the vault and the name that an object is of; false is one of the product's own, or a directory.
func objectOf(key string) (vault int, name string, ok bool) {
	key = strings.TrimPrefix(key, bucketName+"/")
	prefix, name, _ := strings.Cut(key, "/")
	return int(prefix[len(prefix)-1] - '0'), name, name != "" && !strings.HasSuffix(name, "/") && !isOwn(name)
}

func isOwn(name string) bool { return strings.Contains("/"+name, "/.datamove/") }

// files are the checksums of the files below a directory of the shared tier, without temporary ones.
func (r *buckets) files(dir string) map[string]uint64 {
	dir = filepath.Join(r.Dir, "shared", dir)
	all := map[string]uint64{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), mover.TempPrefix) {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), mover.TempPrefix) {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		rel, _ := filepath.Rel(dir, path)
		all[rel] = checksum.Update(0, data)
		return err
	})
	if err != nil {
		r.t.Errorf("%s: %v", dir, err)
	}
	return all
}

// at are the checksums of what is at a location, by name.
func (r *buckets) at(where string) map[string]uint64 {
	if dir, is := strings.CutPrefix(where, "shared:"); is {
		return r.files(dir)
	}
	all := map[string]uint64{}
	prefix := bucketName + "/" + strings.TrimPrefix(where, "cloud:") + "/"
	for _, o := range r.server.Objects(prefix) {
		if name := strings.TrimPrefix(o.Key, prefix); !isOwn(name) && name != "" && !strings.HasSuffix(name, "/") {
			all[name] = o.CRC
		}
	}
	return all
}

func (r *buckets) mayFail(x *pb.Task) bool {
	if x.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_SCAN && x.GetErrorKind() == mover.KindName(mover.ErrNotExist) {
		return true // of a bucket in which nothing is
	}
	i := slices.IndexFunc(r.moved, func(m moved) bool { return m.id == x.GetId() })
	return i >= 0 && r.failsOf(r.moved[i], x)
}

// failsOf reports whether a copy may fail as it did.
func (r *buckets) failsOf(m moved, x *pb.Task) bool {
	fromBucket := strings.HasPrefix(m.from, "cloud:")
	switch x.GetErrorKind() {
	case "CHANGED", "PARTIAL", "CONFLICT":
		return fromBucket || r.altered()
	case "NOT_EXIST":
		return fromBucket
	}
	return strings.Contains(x.GetError(), ", which was to ") // do something there before it, and failed
}

func (r *buckets) altered() bool {
	return slices.ContainsFunc(r.w.steps, func(s step) bool { return s.do == "alter" || s.do == "unlink" })
}

func (r *buckets) end(tasks map[string]*pb.Task) {
	r.left("")
	time.Sleep(staleAfter) // a lock that a worker of another task has left, when it was killed
	for _, m := range r.moved {
		x := tasks[m.id]
		if x.GetState() == task.Done && r.lastTo(m.to, tasks) == m.id && strings.HasPrefix(m.from, "shared:") && r.vaults[m.vault].changed.Before(x.GetStartTime().AsTime()) {
			r.like(m.to, m.vault, m.sync, x)
		}
	}
	var again []moved
	for _, m := range r.moved { // what reads the bucket comes after what writes it
		if m.id != "" && !slices.ContainsFunc(again, func(o moved) bool { return o.to == m.to }) {
			again = append(again, m)
		}
	}
	slices.SortStableFunc(again, func(a, b moved) int { return strings.Compare(b.from, a.from) })
	for _, m := range again {
		if strings.HasPrefix(m.from, "cloud:") && len(r.at(m.from)) == 0 {
			continue
		}
		r.oncemore(m)
		if r.t.Failed() {
			return
		}
	}
}

// oncemore makes a target what its source is, when nothing is wrong any more.
func (r *buckets) oncemore(m moved) {
	x, err := r.Submit(context.Background(), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_SYNC, Source: m.from, Target: m.to, Options: &pb.Options{RemoveExtra: true}}})
	if err != nil {
		r.t.Errorf("once more to %s: %v", m.to, err)
		return
	}
	if !r.rest() {
		return
	}
	if x = r.Now(x.GetId()); x.GetState() != task.Done {
		r.t.Errorf("nothing is wrong any more: %s", told(x))
		return
	}
	if got, want := r.at(m.to), r.at(m.from); !maps.Equal(got, want) {
		r.t.Errorf("%s is %v, and %s is %v, after %s", m.from, want, m.to, got, told(x))
	}
	if strings.HasPrefix(m.to, "cloud:") {
		r.left(strings.TrimPrefix(m.to, "cloud:") + "/")
	}
}

// lastTo is the last task that wrote to a target; "" is none, or several at one instant.
func (r *buckets) lastTo(to string, tasks map[string]*pb.Task) (id string) {
	var end time.Time
	for _, m := range r.moved {
		x := tasks[m.id]
		if m.to != to || x.GetStartTime() == nil || m.id == id {
			continue
		}
		switch at := x.GetEndTime().AsTime(); {
		case at.After(end):
			id, end = m.id, at
		case at.Equal(end):
			id = ""
		}
	}
	return id
}

// like checks that a target has what a vault has; exactly is nothing else.
func (r *buckets) like(to string, i int, exactly bool, by *pb.Task) {
	got := r.at(to)
	for name, sum := range r.vaults[i].now {
		if got[name] != sum {
			r.t.Errorf("%s has another %s than the source after %s", to, name, told(by))
		}
		delete(got, name)
	}
	if exactly && len(got) > 0 {
		r.t.Errorf("%s has %v, and the source has not, after %s", to, got, told(by))
	}
}

// left checks that nothing is left below a prefix but what was copied: open uploads and locks. Of a worker that was killed an upload may be left until another
// one works there: "" is before that. A lock may be left until then by a store that did not answer. Probes that a store does not remove are
// removed by later ones, which is for the tests of mover/backend/s3.
func (r *buckets) left(prefix string) {
	for _, u := range r.server.Uploads(bucketName + "/" + prefix) {
		if prefix != "" || !slices.ContainsFunc(u.From, r.Died) {
			r.t.Errorf("an upload of %s is open, of %v", u.Key, u.From)
		}
	}
	if prefix == "" {
		return
	}
	for _, o := range r.server.Objects(bucketName + "/" + prefix) {
		if isOwn(o.Key) && !strings.Contains(o.Key, "/.datamove/manifest-") && !strings.Contains(o.Key, "/.datamove/probe-") {
			r.t.Errorf("%s is there", o.Key)
		}
	}
}
