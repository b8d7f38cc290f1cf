package service

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

var userDeeds = []deed{{"give", 6}, {"hog", 4}, {"keep", 2}, {"drop", 2}}

// users are two members of a project, of which alice has copies that take long, and pauses some, and bob has not. Both copy to the same places.
type users struct {
	*running
	plain
	quota int64          // tasks that each may have
	sizes map[string]int // of what is copied, by user
}

const (
	hogBytes = 12_000
	hogRate  = 20 // bytes a second: it takes ten minutes
	hogged   = 5 * time.Minute
)

func (r *users) configure(conf *config.Config) {
	r.quota = int64(2 + r.w.seed%4)
	conf.Projects = map[string]config.Project{"team": {Roots: []string{"shared:team", "archive:team"}, Members: slices.Sorted(maps.Keys(rig.People))}}
	conf.Quotas = config.Quotas{Default: config.Quota{Tasks: r.quota}}
}

func (r *users) begin() {
	r.sizes = map[string]int{"alice": hogBytes, "bob": 3000}
	for user, size := range r.sizes {
		at := filepath.Join(r.Dir, "shared", "team", user)
		must.Do(r.t, os.MkdirAll(filepath.Dir(at), 0o755))
		must.Do(r.t, os.WriteFile(at, content(user, size), 0o644))
	}
	for _, dir := range []string{"shared/team/in0", "archive/team/in1"} {
		must.Do(r.t, os.MkdirAll(filepath.Join(r.Dir, dir), 0o755))
	}
	// It is due when all is mended, and no sooner.
	r.pending = append(r.pending, mending{time.Now().Add(1000 * time.Hour), r.comesThrough, "users"})
}

func content(user string, size int) []byte {
	return bytes.Repeat([]byte(user+" "), size/len(user))[:size]
}

func (r *users) do(s step) {
	tier, dir := []string{"shared", "archive"}[s.a%2], fmt.Sprint("team/in", s.a%2)
	switch s.do {
	case "give":
		r.copies("bob", tier+":"+dir+"/", 0, false)
	case "hog":
		r.copies("alice", tier+":"+dir+"/", hogRate, false)
	case "keep":
		r.copies("alice", tier+":"+dir+"/", 0, true)
	case "drop":
		if !r.up {
			return
		}
		open := r.of("alice")
		if len(open) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(rig.As("alice"), 5*time.Second)
		defer cancel()
		if _, err := r.caller.CancelTask(ctx, &pb.CancelTaskRequest{Id: open[s.b%len(open)].GetId()}); !unknown(err) {
			r.kind(s.do, err)
		}
	}
}

func (r *users) copies(user, to string, rate int64, paused bool) {
	r.n++
	req := &pb.SubmitTaskRequest{IdempotencyKey: fmt.Sprint("key", r.n), Paused: paused, Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "shared:team/" + user, Target: to, Options: &pb.Options{BytesPerSecond: rate}}}
	r.ask(&asked{apart: true, what: user + " copies to " + to, call: func(ctx context.Context, c *api.Client) (string, error) {
		x, err := c.Submit(rig.AsIn(ctx, user), req)
		return x.GetId(), err
	}})
}

// of are the tasks of a user that have not ended.
func (r *users) of(user string) (open []*pb.Task) {
	for _, x := range r.all() {
		if x.GetOwner().GetName() == user && !task.Ended(x.GetState()) {
			open = append(open, x)
		}
	}
	return open
}

func (r *users) check() {
	for user, size := range r.sizes {
		if open := r.of(user); int64(len(open)) > r.quota {
			r.t.Errorf("%s has %d tasks, and may have %d", user, len(open), r.quota)
		}
		for i, tier := range []string{"shared", "archive"} {
			text, err := os.ReadFile(filepath.Join(r.Dir, tier, fmt.Sprint("team/in", i), user))
			if err == nil && !bytes.Equal(text, content(user, size)) {
				r.t.Errorf("%s of %s is there, and not whole", user, tier)
			}
		}
	}
}

// comesThrough checks that what one user does, and what root has paused, stops no other: all that bob has asked for ends.
func (r *users) comesThrough() bool {
	if !r.up || len(r.pending) > 0 {
		return false
	}
	for begun := time.Now(); ; time.Sleep(5 * time.Second) {
		open := r.of("bob")
		if len(open) == 0 {
			return true
		}
		if time.Since(begun) > hogged {
			r.t.Errorf("it does not come through: %s", told(open[0]))
			return true
		}
	}
}

func (r *users) end(tasks map[string]*pb.Task) {
	for _, x := range tasks {
		tier, dir, _ := strings.Cut(x.GetSpec().GetTarget(), ":")
		if user := x.GetOwner().GetName(); r.sizes[user] > 0 && x.GetState() == task.Done {
			if _, err := os.Stat(filepath.Join(r.Dir, tier, dir, user)); err != nil {
				r.t.Errorf("it is done, and %v: %s", err, told(x))
			}
		}
	}
}
