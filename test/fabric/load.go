package fabric

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Load moves work from the hub to all nodes of a rig, at once, and says what that took.
type Load func(ctx context.Context, r *Rig, w Work) (Measure, error)

// Programs are the binaries that a model runs, by absolute path.
type Programs struct{ Datamove, Datamoved, Pages string }

// Work is what a load moves: each node gets a folder of its own.
type Work struct {
	Programs
	Objects     int // in each folder
	ObjectBytes int64
}

// ObjectBytes is how large an object is: at a thousandth of a node's speed that takes as
// long as a shard of 8 GB does there.
const ObjectBytes = 8 << 20

// WorkFor is the work that takes about a time through the links of a rig, in objects of some bytes.
func WorkFor(p Programs, link Link, span time.Duration, object int64) Work {
	return Work{p, int(math.Ceil(float64(link.BytesPerSecond()) * span.Seconds() / float64(object))), object}
}

// bytes of one node.
func (w Work) bytes() int64 { return int64(w.Objects) * w.ObjectBytes }

// jobs is how many objects each process moves at a time: so many fill one of these links.
// What more are in work, all the slower, is what is waited for at the end.
const jobs = "3"

// pagesPort is where the S3 server of the hub listens.
const pagesPort = 9000

// Serve starts the S3 server in the hub. It ends with ctx, or by Stop.
func (w Work) Serve(ctx context.Context, r *Rig) (*Process, error) {
	p, err := r.Hub.Start(ctx, Command{Path: w.Pages, Args: []string{"-listen", r.Hub.IP + ":" + strconv.Itoa(pagesPort), "-folders", strconv.Itoa(len(r.Nodes)),
		"-objects", strconv.Itoa(w.Objects), "-bytes", strconv.FormatInt(w.ObjectBytes, 10)}})
	if err != nil {
		return nil, err
	}
	if err := p.Said(ctx, "ready\n"); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Source is the folder of the i-th node, as a location.
func (w Work) Source(i int) string { return fmt.Sprintf("s3://pages/%03d/", i) }

// Env lets a program of a node reach the S3 server.
func (w Work) Env(r *Rig) []string {
	return []string{fmt.Sprintf("AWS_ENDPOINT_URL_S3=http://%s:%d", r.Hub.IP, pagesPort), "AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any", "AWS_REGION=us-east-1",
		"AWS_EC2_METADATA_DISABLED=true", "DATAMOVE_CONFIG="}
}

// CLI is a load: datamove copy in every node, without any service. What it takes
// to start is in its time.
func CLI(ctx context.Context, r *Rig, w Work) (Measure, error) {
	server, err := w.Serve(ctx, r)
	if err != nil {
		return Measure{}, err
	}
	defer server.Stop()
	return r.write(ctx, r.Nodes, func(ctx context.Context, i int, n *Node) (part, error) {
		target := filepath.Join(n.Dir, "target")
		p, err := n.Start(ctx, Command{Path: w.Datamove, Args: []string{"copy", "-q", "--jobs", jobs, w.Source(i), target}, Env: w.Env(r)})
		if err == nil {
			err = p.Wait()
		}
		if err != nil {
			return part{}, err
		}
		bytes, err := arrived(target, w.bytes())
		return part{bytes, p.CPU()}, err
	})
}

// arrived returns the bytes of the files below a directory, which have to be so many.
func arrived(dir string, want int64) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err == nil && sum != want {
		err = fmt.Errorf("%s has %d bytes, and should have %d", dir, sum, want)
	}
	return sum, err
}

// Forget removes what a load has brought to the nodes.
func (w Work) Forget(r *Rig) error {
	for _, n := range append(r.Nodes, r.Hub) {
		if err := os.RemoveAll(filepath.Join(n.Dir, "target")); err != nil {
			return err
		}
	}
	return nil
}
