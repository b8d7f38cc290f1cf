package workload_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"datamove.dev/bench/loadgen"
	"datamove.dev/bench/multinode"
	"datamove.dev/bench/result"
	"datamove.dev/bench/workload"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

// tiny is as small as it can be.
func tiny(nodes ...int) workload.Sizes {
	return workload.Sizes{Nodes: nodes, Ranks: 2, Bytes: 256 << 10, Block: 64 << 10, Files: 6, FileBytes: 3000, Dirs: 2, Sample: 1000, Model: "8b", Scale: 1e-6, Cache: loadgen.Drop}
}

func paths(_ context.Context, target, _ string) (string, mover.Backend, error) {
	return target, nil, nil
}

// run does all suites that can be done there, with so many nodes.
func run(t *testing.T, s workload.Sizes, nodes int, target string, open loadgen.Opener) *result.Run {
	works := must.Get(workload.Works([]string{"all"}, s))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	secret := multinode.NewSecret()
	ends := make(chan error, nodes)
	for range nodes {
		go func() {
			ends <- multinode.Join(t.Context(), multinode.Guest{Address: l.Addr().String(), Secret: secret, Open: open})
		}()
	}
	r := must.Get(multinode.Conduct(t.Context(), multinode.Plan{Targets: []string{target}, Works: works, Nodes: nodes, Listen: l, Secret: secret, Open: open}))(t)
	for range nodes {
		must.Do(t, <-ends)
	}
	return r
}

// TestWorks: every phase of every suite is done, by one node and by more, and leaves nothing behind; what is read is what was written.
func TestWorks(t *testing.T) {
	for nodes, sizes := range map[int][]int{1: {1}, 3: {1, 3}} {
		dir := t.TempDir()
		r := run(t, tiny(sizes...), nodes, dir, paths)
		seen := map[string]bool{}
		for i := range r.Phases {
			p := &r.Phases[i]
			seen[p.Suite] = true
			if p.Last.Ops == 0 || p.Rate() <= 0 || p.Wrong != 0 || p.Failed != "" || p.What == "" || p.Unit == "" {
				t.Errorf("%s %s: %+v", p.Suite, p.Name, p)
			}
		}
		if len(seen) != 8 {
			t.Errorf("%d suites: %v", len(seen), seen)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// TestBucket: the same of those that can be done on a bucket.
func TestBucket(t *testing.T) {
	o := s3test.Start(t, false).Options(t)
	s := tiny(2)
	s.Ranks, s.Bucket, s.Bytes = 1, true, 9<<20 // two parts
	s.Sample = 64 << 10                         // 256 objects are more than two parts
	r := run(t, s, 2, "s3://bucket/prefix", func(ctx context.Context, _, name string) (string, mover.Backend, error) {
		o := o
		o.Prefix = mover.Join(o.Prefix, name)
		place, err := s3.Open(ctx, o)
		return "", place, err
	})
	if len(r.Phases) != 4+3+3+9 {
		t.Errorf("%d phases", len(r.Phases))
	}
	for i := range r.Phases {
		if p := &r.Phases[i]; p.Last.Ops == 0 || p.Wrong != 0 || p.Failed != "" {
			t.Errorf("%s %s: %+v", p.Suite, p.Name, p)
		}
	}
}

// TestCheckpoint: 512 ranks write what MLPerf has for the model, on as many nodes as there are.
func TestCheckpoint(t *testing.T) {
	for nodes, ranks := range map[int]int{1: 512, 4: 128, 3: 171} {
		works := must.Get(workload.Works([]string{"checkpoint"}, workload.Sizes{Nodes: []int{nodes}, Scale: 1}))(t)
		w := works[0]
		if w.Ranks != ranks || w.Tree.Bytes < 5.29e12/512-4096 || w.Tree.Bytes > 5.29e12/512 || w.Durable != loadgen.EachEnd {
			t.Errorf("%+v", w)
		}
	}
}

// TestOnly: of a suite some phases are done, and what they made is forgotten after the last of them.
func TestOnly(t *testing.T) {
	works := must.Get(workload.Works([]string{"large", "small", "storm"}, workload.Sizes{Phases: []string{"mkdir", "write", "create", "read"}, Repeats: 2}))(t)
	var got []string
	for _, w := range works {
		name := w.Suite + " " + w.Name
		if w.Last {
			name += "."
		}
		got = append(got, name)
	}
	if want := "large write,large read.,small mkdir,small write,small read.,storm create."; strings.Join(got, ",") != want+","+want {
		t.Errorf("%q", got)
	}
}

func TestMistakes(t *testing.T) {
	for want, call := range map[string]func() error{
		`"larg" is no suite (did you mean large?)`: func() error { _, err := workload.Works([]string{"larg"}, workload.Sizes{}); return err },
		"s3 is done on buckets":                    func() error { _, err := workload.Works([]string{"s3"}, workload.Sizes{}); return err },
		"storm is done on directories":             func() error { _, err := workload.Works([]string{"storm"}, workload.Sizes{Bucket: true}); return err },
		`"9b" is no model (did you mean 8b?)`:      func() error { _, err := workload.Works(nil, workload.Sizes{Model: "9b"}); return err },
		"name that one, too":                       func() error { _, err := workload.Works(nil, workload.Sizes{Phases: []string{"read"}}); return err },
		`"reed" is no phase of these suites (did you mean read?)`: func() error {
			_, err := workload.Works(nil, workload.Sizes{Phases: []string{"write", "reed"}})
			return err
		},
		"want a part of it": func() error { _, err := workload.Works(nil, workload.Sizes{Scale: 2}); return err },
	} {
		if err := call(); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestNodes(t *testing.T) {
	for all, want := range map[int]int{1: 1, 2: 2, 6: 4, 32: 6} {
		if got := workload.Nodes(all); len(got) != want || got[len(got)-1] != all {
			t.Errorf("%d: %v", all, got)
		}
	}
}
