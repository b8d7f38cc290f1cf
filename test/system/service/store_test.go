package service

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	crash "datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// store is the S3 server behind the tier "store" of a cluster, which a tree is copied to.
type store struct {
	*crash.Store
	c *cluster
}

// withStore gives a cluster that tier, and the tree.
func (c *cluster) withStore() *store {
	c.t.Helper()
	s := &store{crash.NewStore(c.t, &crash.Program{}), c}
	c.bucket("store", config.S3{Endpoint: s.URL, Bucket: s.Bucket()}, s.Keys())
	c.Tree("shared/source", 40, 2, 17<<20+4321)
	return s
}

// bucket adds a tier.
func (c *cluster) bucket(name string, at config.S3, keys string) {
	c.t.Helper()
	file := filepath.Join(c.Dir, name+".env")
	must.Do(c.t, os.WriteFile(file, []byte(keys), 0o600))
	at.Region, at.Credentials = "us-east-1", "file:"+file
	next := *c.Conf.Load()
	next.Tiers = maps.Clone(next.Tiers)
	next.Tiers[name] = config.Tier{Level: "cold", S3: &at}
	c.Conf.Store(&next)
}

// whole looks at the target: the tree is there, each object was made once, and nothing else is left.
func (s *store) whole() {
	t := s.c.t
	t.Helper()
	want, _ := crash.Look(t, filepath.Join(s.c.Dir, "shared/source"))
	for _, line := range crash.Differences(crash.Objects(want), s.Look(t, "target")) {
		t.Error(line)
	}
	if own := s.Own(t, "target"); len(own) != 1 || own[0] != "manifest-v1.jsonl.zst" {
		t.Errorf("the program left %q", own)
	}
	if n := s.Uploads(t); n > 0 {
		t.Errorf("%d uploads are open", n)
	}
	for key, n := range s.Made() {
		if n > 1 && strings.HasPrefix(key, "/"+s.Bucket()+"/target/") && !strings.Contains(key, "/.datamove/") {
			t.Errorf("%s was made %d times", key, n)
		}
	}
}

// gate holds the first call of a kind at a store: what is asked for is done, and
// the answer waits until the gate is opened.
type gate struct {
	call    string
	once    sync.Once
	reached chan struct{} // closed when the call was done
	opened  chan struct{}
}

func newGate(call string) *gate {
	return &gate{call: call, reached: make(chan struct{}), opened: make(chan struct{})}
}

func (g *gate) open() { close(g.opened) }

func (g *gate) fault(w http.ResponseWriter, r *http.Request, next http.Handler) {
	first := false
	if crash.Call(r) == g.call && !strings.Contains(r.URL.Path, "/.datamove/") { // else it probes the bucket
		g.once.Do(func() { first = true })
	}
	if !first {
		next.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	next.ServeHTTP(answer, r)
	close(g.reached)
	<-g.opened
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the caller may be gone
}

// TestLateWriterOfObjects: a worker that sleeps for longer than the lease of its agent, which is cut off, makes no object when it wakes up.
//
//safety:1 with test/cluster TestLateWriter
func TestLateWriterOfObjects(t *testing.T) {
	c := newCluster(t)
	s := c.withStore()
	c.Join("n1")
	c.Join("n2")
	id := c.Slow("shared:source", "store:target", 16<<20).GetId()
	c.Passed(id, 4<<20)
	lead := c.Now(id).GetAgent()
	asleep := c.Working(lead, id)
	all := func(signal syscall.Signal) {
		for _, pid := range asleep {
			_ = syscall.Kill(pid, signal)
		}
	}
	t.Cleanup(func() { all(syscall.SIGCONT) })
	all(syscall.SIGSTOP)
	c.Cut(lead)
	c.Done(id)
	s.whole()
	was := s.Made()
	all(syscall.SIGCONT)
	c.Mend(lead)
	c.Until("what was left of it has ended", func() bool { return len(c.Working(lead, id)) == 0 })
	c.Ready(lead)
	if now := s.Made(); len(asleep) == 0 || !maps.Equal(was, now) {
		t.Errorf("the %d sleepers have made objects: %v, and before %v", len(asleep), now, was)
	}
	s.whole()
}

// TestCancelWhilePublishing: a task that is cancelled while a store puts an upload together ends as cancelled, and leaves no upload.
//
//safety:3 with test/cluster TestCancelled
func TestCancelWhilePublishing(t *testing.T) {
	c := newCluster(t)
	s := c.withStore()
	c.Join("n1")
	g := newGate("CompleteMultipartUpload")
	s.Set(g.fault)
	id := c.Copy("shared:source", "store:target").GetId()
	<-g.reached
	cancelled, err := c.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: id})
	g.open()
	if end := c.Ends(cancelled, err); end.GetState() != task.Cancelled {
		t.Errorf("it is %s: %s", task.Word(end.GetState()), end.GetError())
	}
	if n := s.Uploads(t); n > 0 {
		t.Errorf("%d uploads are open", n)
	}
	c.Done(c.Copy("shared:source", "store:target").GetId())
	s.whole()
}

// TestKilledBetweenCreateAndComplete: when a process is killed while an upload is begun, or put together, no object is made twice, none is missing, and no upload
// stays behind.
//
//safety:3 the coordinator, or the lead, is killed while a store begins an upload or puts it together
func TestKilledBetweenCreateAndComplete(t *testing.T) {
	for victim, kill := range map[string]func(*cluster, string){
		"the coordinator": func(c *cluster, _ string) { c.Restart() },
		"the lead":        func(c *cluster, id string) { c.Kill(c.Now(id).GetAgent(), id) },
	} {
		for _, call := range []string{"CreateMultipartUpload", "CompleteMultipartUpload"} {
			t.Run(victim+" during "+call, func(t *testing.T) {
				c := newCluster(t)
				s := c.withStore()
				c.Join("n1")
				c.Join("n2")
				g := newGate(call)
				s.Set(g.fault)
				id := c.Copy("shared:source", "store:target").GetId()
				<-g.reached
				kill(c, id)
				g.open()
				c.Done(id)
				s.whole()
			})
		}
	}
}
