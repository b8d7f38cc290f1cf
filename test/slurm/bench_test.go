package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// TestBench: datamove-bench in an allocation, as its help says. srun starts it on each node, and all begin at one instant. A node that is lost in a phase is named while Slurm has not yet
// noticed, and nothing of a run stays.
func TestBench(t *testing.T) {
	soak(t)
	c := Start(t, Options{Nodes: 3, Binds: map[string]string{"/usr/local/bin": ours(t, "datamove-bench")}})
	anna := c.Path(Controller, "/project/anna")
	must.Do(t, errors.Join(os.Mkdir(anna, 0o755), own(anna, UID(Anna))))
	bench := func(flags string) (id string) {
		return c.MustSubmit(Anna, "#!/bin/sh\ndatamove-bench run --nodes $SLURM_NNODES --launch 'srun --ntasks-per-node=1' --suite large "+flags+" --save run.json /project/anna\necho exit $?\n", "-N3")
	}
	left := func() error {
		names, err := filepath.Glob(anna + "/*")
		if err == nil && len(names) > 0 {
			err = fmt.Errorf("%q is left", names)
		}
		return err
	}

	id := bench("--phases write,verify --ranks 2 --size 8MiB")
	c.UntilState(id, "COMPLETED")
	if said := c.Output(Anna, id); !strings.HasSuffix(said, "exit 0\n") {
		t.Fatalf("it says %s", said)
	}
	r := c.record()
	if names := r.names(); !slices.Equal(names, []string{"node1", "node2", "node3"}) || len(r.Phases) != 2 {
		t.Errorf("%q have taken part in %d phases", names, len(r.Phases))
	}
	for _, p := range r.Phases {
		if p.Last.Bytes != 3*2*8<<20 || p.Failed != "" {
			t.Errorf("%s: %d bytes, %q", p.Name, p.Last.Bytes, p.Failed)
		}
	}
	must.Do(t, left())

	id = bench("--phases write --ranks 1 --size 1MiB --repeats 100000")
	c.Eventually("they work", func() error {
		if left() == nil {
			return errors.New(c.Output(Anna, id))
		}
		return nil
	})
	c.KillNode(3)
	c.Eventually("it has ended", func() error {
		if said := c.Output(Anna, id); !strings.HasSuffix(said, "exit 8\n") || !strings.Contains(said, "node node3 is lost") {
			return errors.New(said)
		}
		return nil
	})
	if r = c.record(); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "node3: lost") {
		t.Errorf("the record says %q", r.Notes)
	}
	must.Do(t, left())
}

// benched is what we read of a record, as others would: datamove.run/v1.
type benched struct {
	Nodes  []struct{ Name string }
	Notes  []string
	Phases []struct {
		Name, Failed string
		Last         struct{ Bytes int64 }
	}
}

// record is that of the last run.
func (c *Cluster) record() (r benched) {
	c.t.Helper()
	text := must.Get(os.ReadFile(c.Path(Controller, "/home/"+Anna+"/run.json")))(c.t)
	must.Do(c.t, json.Unmarshal(text, &r))
	return r
}

// names are those of its nodes, in order.
func (r benched) names() (names []string) {
	for _, n := range r.Nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}
