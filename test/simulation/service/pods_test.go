package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/csi"
	"datamove.dev/csi/fsclient"
	"datamove.dev/csi/fsworker"
	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset/datasetclient"
)

var podDeeds = []deed{{"pod", 8}, {"end a pod", 4}, {"kill a driver", 4}, {"next version", 1}, {"release serve", 2}, {"kill a worker of a pod", 2}}

// pods are pods of Kubernetes with volumes of a dataset. Each node has the CSI driver, and a kubelet that calls it for each pod: it gives a call up at its
// deadline, and calls again, also twice at once.
type pods struct {
	*running
	plain
	data  []map[string]uint64 // contents of the versions of the dataset
	hosts []*host

	mu      sync.Mutex
	digests map[string]int // versions by their digests; guarded by mu
	claims  []*claim       // guarded by mu
	all     []*pod         // guarded by mu
	stopped bool           // the test is over; guarded by mu
	walking sync.WaitGroup
	calling sync.WaitGroup
}

// host is a node: what outlives its driver, and the driver.
type host struct {
	*pods
	node, held string

	mu     sync.Mutex
	mounts map[string]string // directories by their targets; guarded by mu
	driver *csi.Driver       // guarded by mu, as at
	at     *rig.CallerProcess
}

// claim is a PersistentVolumeClaim.
type claim struct {
	name    string
	dataset string
	single  bool         // it is for one pod
	volume  *spec.Volume // nil until it is made; guarded by pods.mu
}

// pod is one with a volume of a claim.
type pod struct {
	*pods
	*rand.Rand
	*claim
	host   *host
	target string
	name   string
	end    chan struct{} // closed when it is to end

	// Guarded by pods.mu.
	ended     bool
	published bool // from the answer to a publication until the call that takes it away
	over      bool // it is unpublished
	again     bool // the coordinator may have been asked for it twice at once: each question makes a lease, and all are let go
	told      []string
}

const (
	leaseTTL   = 12 * time.Minute // of drivers: renewed every four minutes
	leaseGrace = time.Minute      // of leases that nothing is mounted for
)

func (r *pods) configure(*config.Config) {}

func (r *pods) begin() {
	r.digests = map[string]int{}
	rng := rand.New(rand.NewPCG(r.w.seed, 42))
	for version := range 2 {
		of := map[string]uint64{}
		for i := range 3 {
			text := make([]byte, []int{10, 3000, 200 << 10}[i])
			for j := range text {
				text[j] = byte(rng.Uint32())
			}
			file := fmt.Sprintf("d%d/serve%d", i%2, i)
			path := filepath.Join(r.Dir, "archive", fmt.Sprint("serve", version), file)
			must.Do(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.Do(r.t, os.WriteFile(path, text, 0o644))
			of[file] = sumOf(text)
		}
		r.data = append(r.data, of)
	}
	r.digests[r.Add("serve", "archive:serve0")] = 0
	r.t.Cleanup(r.stop)
	for i := range r.w.agents {
		h := &host{pods: r, node: nodeName(i), held: filepath.Join(r.Dir, "nodes", nodeName(i), "held.json"), mounts: map[string]string{}}
		r.hosts = append(r.hosts, h)
		h.start(0)
	}
}

// stop ends what goes on still after a failure.
func (r *pods) stop() {
	r.mu.Lock()
	r.stopped = true
	for _, p := range r.all {
		p.ends()
	}
	r.mu.Unlock()
	for _, h := range r.hosts {
		h.kill()
	}
	r.walking.Wait()
	r.calling.Wait()
}

// start starts the driver of a node, which dies at its n-th step, and comes back a second after it; 0 is never.
func (h *host) start(at int) {
	began := make(chan struct{})
	p := h.CallerProcess(at, (*rig.CallerProcess).Kill, func(ctx context.Context, p *rig.CallerProcess) error {
		pool := &fsworker.Pool{Here: h.methods(p)}
		defer pool.Close()
		files := &fsclient.Files{Pool: pool}
		m := &datasetclient.Mover{Dial: p.Dial, Node: h.node, Label: "csi-copy", TTL: leaseTTL, Grace: leaseGrace}
		d := csi.New(csi.Options{
			Config: &csi.Config{Grants: volume.Grants{{Namespaces: []string{"*"}, Sources: []string{"dataset:serve"}}}},
			Files:  files, Mode: csi.All, NodeID: h.node, Version: "test", Logger: slog.New(slog.DiscardHandler), Patience: time.Minute, Mounts: h.table,
			Staging: &datasetclient.Away{Mover: m, File: h.held, Note: csi.Noting(files)},
		})
		h.mu.Lock()
		h.driver, h.at = d, p
		h.mu.Unlock()
		close(began)
		d.KeepLeases(ctx)
		return nil
	})
	<-began
	if at > 0 {
		h.calling.Go(func() {
			<-p.Over()
			time.Sleep(time.Second)
			h.mu.Lock()
			again := h.at == p && !h.isStopped()
			h.mu.Unlock()
			if again {
				h.start(0)
			}
		})
	}
}

func (r *pods) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// kill kills the driver.
func (h *host) kill() {
	h.mu.Lock()
	p := h.at
	h.mu.Unlock()
	if p != nil {
		p.Kill()
		<-p.Ended
	}
}

// table is that of the mounts of the node.
func (h *host) table(string) (all []mount.Mount, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, target := range slices.Sorted(maps.Keys(h.mounts)) {
		all = append(all, mount.Mount{Point: target, Root: h.mounts[target]})
	}
	return all, nil
}

// methods are what the driver does with files of the node: mounts are rows of a table.
func (h *host) methods(p *rig.CallerProcess) map[string]fsworker.Method {
	type attachment struct {
		Spec         volumestore.Spec
		Path, Target string
	}
	type noting struct {
		Root, Path string
		Until      time.Time
	}
	note := fsclient.Methods()["note"]
	return map[string]fsworker.Method{
		"attach": fsworker.Typed(func(_ context.Context, q attachment) (struct{}, error) {
			p.Step()
			defer p.Step()
			dir := h.onNode(h.node, filepath.Join(q.Spec.Root, q.Path))
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				return struct{}{}, &mover.Error{Op: "mount", Location: q.Target, Err: errors.Join(err, mover.ErrNotExist)}
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if now, is := h.mounts[q.Target]; is && now != dir {
				return struct{}{}, fmt.Errorf("%w: %s is mounted at %s", mover.ErrConflict, now, q.Target)
			}
			h.mounts[q.Target] = dir
			return struct{}{}, nil
		}),
		"detach": fsworker.Typed(func(_ context.Context, q attachment) (struct{}, error) {
			p.Step()
			defer p.Step()
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.mounts, q.Target)
			return struct{}{}, nil
		}),
		"note": fsworker.Typed(func(ctx context.Context, q noting) (struct{}, error) {
			p.Step()
			defer p.Step()
			q.Root = strings.TrimSuffix(h.onNode(h.node, q.Root+"/"), "/")
			args, err := json.Marshal(q)
			if err == nil {
				_, err = note(ctx, args)
			}
			return struct{}{}, err
		}),
	}
}

// errGone is what a kubelet hears of a driver that is not there.
var errGone = status.Error(codes.Unavailable, "the driver has ended")

// call is one of a kubelet, or of the provisioner, which gives it up at the deadline of ctx. What the driver does for it may go on.
func (h *host) call(ctx context.Context, method string, request any, do func(context.Context, *csi.Driver) (any, error)) (any, error) {
	h.mu.Lock()
	d, p := h.driver, h.at
	h.mu.Unlock()
	if p.Dead() {
		return nil, errGone
	}
	type answer struct {
		reply any
		err   error
	}
	answered := make(chan answer, 1)
	h.calling.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-p.Over():
				cancel()
			case <-stop:
			}
		}()
		reply, err := d.Unary(ctx, request, &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, _ any) (any, error) { return do(ctx, d) })
		answered <- answer{reply, err}
	})
	select {
	case <-p.Over():
		return nil, errGone
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case a := <-answered:
		if p.Dead() {
			return nil, errGone
		}
		return a.reply, a.err
	}
}

// deadlines are those of calls of a kubelet, and its backoff.
var deadlines = []time.Duration{300 * time.Millisecond, 2 * time.Second, 15 * time.Second, 2 * time.Minute}

func (r *pods) do(s step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s.do {
	case "pod":
		r.create(s)
	case "end a pod":
		if len(r.all) > 0 {
			r.all[s.a%len(r.all)].ends()
		}
	case "kill a driver":
		h := r.hosts[s.a%len(r.hosts)]
		r.mu.Unlock()
		h.kill()
		h.start([]int{0, 0, 1 + s.b%60}[s.c%3])
		r.mu.Lock()
	case "next version":
		r.n++
		key := fmt.Sprint("key", r.n)
		r.mu.Unlock()
		r.ask(&asked{what: s.do, call: func(ctx context.Context, c *api.Client) (string, error) {
			t, err := api.Once(ctx, c, c.AddDataset, &pb.AddDatasetRequest{Name: "serve", Location: "archive:serve1", IdempotencyKey: key})
			return t.GetId(), err
		}})
		r.mu.Lock()
	case "release serve":
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := r.caller.Release(ctx, &pb.ReleaseRequest{Source: "dataset:serve", Tier: "scratch", Node: nodeName(s.a % r.w.agents)})
		if !unknown(err) {
			r.kind(s.do, err)
		}
		r.mu.Lock()
	case "kill a worker of a pod":
		r.mu.Unlock()
		r.killWorkerOf(s.a, func(x *pb.Task) bool { return x.GetSpec().GetLabels()["csi-copy"] != "" })
		r.mu.Lock()
	}
}

// create makes a pod, and now and then its claim. mu is held.
func (r *pods) create(s step) {
	rng := rand.New(rand.NewPCG(r.w.seed, uint64(s.a)<<20|uint64(s.b)<<10|uint64(s.c)))
	h := r.hosts[rng.IntN(len(r.hosts))]
	if len(r.claims) == 0 || rng.IntN(3) == 0 {
		r.claims = append(r.claims, &claim{name: fmt.Sprint("claim", len(r.claims)), dataset: []string{"serve", "serve", "serve@latest"}[rng.IntN(3)], single: rng.IntN(5) == 0})
	}
	p := &pod{pods: r, Rand: rng, claim: r.claims[rng.IntN(len(r.claims))], host: h, name: fmt.Sprint("pod", len(r.all)), end: make(chan struct{})}
	p.target = filepath.Join(r.Dir, "pods", h.node, p.name)
	r.all = append(r.all, p)
	r.walking.Go(p.walk)
}

// ends has a pod end. mu is held.
func (p *pod) ends() {
	if !p.ended {
		p.ended = true
		close(p.end)
	}
}

func (p *pod) note(format string, a ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, time.Now().Format("15:04:05.000")+" "+fmt.Sprintf(format, a...))
}

// fails is an error of the test, with what the pod has gone through.
func (p *pod) fails(format string, a ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Errorf("%s of %s (%s, single %v) on %s: %s\n\t%s", p.name, p.claim.name, p.dataset, p.single, p.host.node, fmt.Sprintf(format, a...), strings.Join(p.told, "\n\t"))
}

// until makes a call again and again, until it is done, or until that is not wanted any more.
func (p *pod) until(what string, again func() bool, call func(context.Context) error) bool {
	for pause := 500 * time.Millisecond; again() && !p.isStopped(); pause = min(2*pause, 10*time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), deadlines[p.IntN(len(deadlines))])
		twice := p.IntN(4) == 0
		if twice {
			p.calling.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				_ = call(ctx)
			})
		}
		err := call(ctx)
		cancel()
		p.note("%s: %v", what, err)
		p.mu.Lock()
		p.again = p.again || twice || status.Code(err) != codes.OK && status.Code(err) != codes.Aborted || p.w.rates.answered+p.w.rates.twice > 0
		p.mu.Unlock()
		switch status.Code(err) {
		case codes.OK:
			return true
		case codes.Unknown, codes.Internal, codes.DataLoss, codes.Unimplemented, codes.InvalidArgument, codes.PermissionDenied, codes.NotFound, codes.AlreadyExists:
			p.fails("%s: %v", what, err)
			return false
		}
		time.Sleep(pause)
	}
	return false
}

// walk is a pod from its claim to its end.
func (p *pod) walk() {
	goes := func() bool {
		select {
		case <-p.end:
			return false
		default:
			return true
		}
	}
	always := func() bool { return true }
	if p.until("create", goes, p.createVolume) && p.until("publish", goes, p.publish) {
		p.mu.Lock()
		p.published = true
		p.mu.Unlock()
		p.whole()
		<-p.end
		p.mu.Lock()
		p.published = false
		p.mu.Unlock()
	}
	if p.made() == nil {
		return
	}
	if p.until("unpublish", always, p.unpublish) {
		p.calling.Go(func() { // the kubelet asks twice
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_ = p.unpublish(ctx)
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}

// made is the volume of the claim; nil is none yet.
func (p *pod) made() *spec.Volume {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.volume
}

func capability(single bool) *spec.VolumeCapability {
	mode := spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	if single {
		mode = spec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	}
	return &spec.VolumeCapability{AccessType: &spec.VolumeCapability_Mount{Mount: &spec.VolumeCapability_MountVolume{}}, AccessMode: &spec.VolumeCapability_AccessMode{Mode: mode}}
}

func (p *pod) createVolume(ctx context.Context) error {
	if p.made() != nil {
		return nil
	}
	q := &spec.CreateVolumeRequest{Name: "pvc-" + p.claim.name, VolumeCapabilities: []*spec.VolumeCapability{capability(p.single)},
		Parameters: map[string]string{"type": "dataset", "dataset": p.dataset, "tier": "scratch"}}
	reply, err := p.host.call(ctx, "/csi.v1.Controller/CreateVolume", q, func(ctx context.Context, d *csi.Driver) (any, error) { return d.CreateVolume(ctx, q) })
	if err != nil {
		return err
	}
	v := reply.(*spec.CreateVolumeResponse).GetVolume()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.volume == nil {
		p.volume = v
	}
	if p.volume.GetVolumeId() != v.GetVolumeId() {
		p.t.Errorf("%s is volume %s, and once more %s", p.claim.name, p.volume.GetVolumeId(), v.GetVolumeId())
	}
	return nil
}

func (p *pod) publish(ctx context.Context) error {
	v := p.made()
	q := &spec.NodePublishVolumeRequest{VolumeId: v.GetVolumeId(), TargetPath: p.target, VolumeCapability: capability(p.single), Readonly: true, VolumeContext: map[string]string{
		"csi.storage.k8s.io/pod.namespace": "lab", "csi.storage.k8s.io/pod.name": p.name, "csi.storage.k8s.io/pod.uid": "u-" + p.name,
		"csi.storage.k8s.io/serviceAccount.name": "default", "csi.storage.k8s.io/ephemeral": "false"}}
	maps.Copy(q.VolumeContext, v.GetVolumeContext())
	_, err := p.host.call(ctx, "/csi.v1.Node/NodePublishVolume", q, func(ctx context.Context, d *csi.Driver) (any, error) { return d.NodePublishVolume(ctx, q) })
	return err
}

func (p *pod) unpublish(ctx context.Context) error {
	q := &spec.NodeUnpublishVolumeRequest{VolumeId: p.made().GetVolumeId(), TargetPath: p.target}
	_, err := p.host.call(ctx, "/csi.v1.Node/NodeUnpublishVolume", q, func(ctx context.Context, d *csi.Driver) (any, error) { return d.NodeUnpublishVolume(ctx, q) })
	return err
}

// holder is that of the lease for the mount of a pod.
func (p *pod) holder() string {
	return "csi:" + volume.KeyOf("", volume.Dataset, p.made().GetVolumeId()) + ":" + volume.KeyOf("", volume.Dataset, p.target)
}

// whole checks that what is mounted for a pod is a whole version, and the one of its claim.
func (p *pod) whole() {
	p.host.mu.Lock()
	dir, is := p.host.mounts[p.target]
	p.host.mu.Unlock()
	if !is {
		p.fails("it is published, and nothing is mounted")
		return
	}
	files, temporary := p.contents(dir)
	version := slices.IndexFunc(p.data, func(of map[string]uint64) bool { return maps.Equal(of, files) })
	if version < 0 || len(temporary) > 0 {
		p.fails("it has no whole version: %d files, %v", len(files), temporary)
		return
	}
	_, digest, pinned := strings.Cut(p.made().GetVolumeContext()["dataset"], "@")
	p.mu.Lock()
	want, known := p.digests[digest]
	if pinned && digest != "latest" && !known {
		p.digests[digest], want, known = 1, 1, true // of the next version, which is the only other one
	}
	p.mu.Unlock()
	if known && version != want {
		p.fails("it has version %d, and its claim has version %d", version, want)
	}
}

// present are the pods whose volumes are published.
func (r *pods) present() (all []*pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.all {
		if p.published {
			all = append(all, p)
		}
	}
	return all
}

func (r *pods) check() {
	all := r.present()
	owed := map[string]bool{}
	for _, h := range r.hosts {
		for _, who := range h.owes() {
			owed[who] = true
		}
	}
	leases, ok := r.held()
	for _, p := range all {
		r.mu.Lock()
		still := p.published
		r.mu.Unlock()
		if !still {
			continue
		}
		p.whole()
		if who := p.holder(); ok && leases[who] == 0 && !owed[who] {
			p.fails("it is published, and %s holds nothing", who)
		}
	}
	single := map[*claim]string{}
	for _, p := range r.present() {
		if other := single[p.claim]; p.single && other != "" {
			p.fails("its claim is for one pod, and %s has it, too", other)
		}
		single[p.claim] = p.name
	}
}

// held counts the leases of holders that are pods.
func (r *pods) held() (n map[string]int, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	n = map[string]int{}
	for l, err := range r.Leases(ctx, &pb.ListLeasesRequest{}) {
		if err != nil {
			return nil, false
		}
		if strings.HasPrefix(l.GetHolder(), "csi:") {
			n[l.GetHolder()]++
		}
	}
	return n, true
}

// owes are the holders that the coordinator does not know of, as the driver has written down.
func (h *host) owes() []string {
	text, err := os.ReadFile(h.held)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var m struct {
		Owed map[string]any `json:"owed"`
	}
	must.Tell(h.t, errors.Join(err, json.Unmarshal(text, &m)))
	return slices.Sorted(maps.Keys(m.Owed))
}

func (r *pods) mayFail(x *pb.Task) bool {
	return x.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_RELEASE // of what is not there, or in use
}

// eventually waits until something is so in fair weather.
func (r *pods) eventually(what string, is func() bool) bool {
	for begun := time.Now(); !is(); time.Sleep(time.Second) {
		if r.t.Failed() {
			return false
		}
		if time.Since(begun) > time.Hour {
			r.t.Errorf("it never happens that %s", what)
			return false
		}
	}
	return true
}

// calm waits until all pods have their volumes, ends them, and looks at what is left.
func (r *pods) calm() {
	r.mu.Lock()
	all := slices.Clone(r.all)
	for _, p := range all {
		if p.single {
			p.ends() // one of them waits for the others
		}
	}
	r.mu.Unlock()
	for _, p := range all {
		if !r.eventually(p.name+" has its volume", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return p.published || p.ended
		}) {
			p.fails("it does not get its volume")
			return
		}
	}
	r.eventually("each volume has a lease", func() bool {
		leases, _ := r.held()
		return !slices.ContainsFunc(r.present(), func(p *pod) bool { return leases[p.holder()] == 0 })
	})
	r.check()
	leases, _ := r.held()
	for _, p := range r.present() {
		if n := leases[p.holder()]; n != 1 && !p.again {
			p.fails("its volume has %d leases", n)
		}
	}
	r.mu.Lock()
	for _, p := range all {
		p.ends()
	}
	r.mu.Unlock()
	r.walking.Wait()
	r.eventually("nothing is held for pods that have ended", func() bool {
		leases, _ := r.held()
		return len(leases) == 0
	})
	for _, h := range r.hosts {
		r.eventually("no holder is owed on "+h.node, func() bool { return len(h.owes()) == 0 })
		h.mu.Lock()
		mounted := maps.Clone(h.mounts)
		h.mu.Unlock()
		if len(mounted) > 0 {
			r.t.Errorf("on %s is mounted %v, and all pods have ended", h.node, mounted)
		}
	}
	r.eventually("nothing comes for pods that have ended", func() bool {
		return !slices.ContainsFunc(r.running.all(), func(x *pb.Task) bool {
			return x.GetSpec().GetLabels()["csi-copy"] != "" && !task.Ended(x.GetState())
		})
	})
	if !r.t.Failed() {
		r.stop()
	}
}
