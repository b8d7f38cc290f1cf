package fabric

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/must"
)

// The two ways of a site to AWS: Direct Connect, and the VPN that it fails over to.
var (
	directConnect = Path{Mbit: 200, Delay: 2500 * time.Microsecond}
	vpn           = Path{Mbit: 50, Delay: 30 * time.Millisecond}
)

const (
	wanParts = 16 << 20 // of an upload
	wanBytes = 6 * wanParts
	wanJobs  = 3
	outage   = 8 * time.Second
)

// overWAN is a site with a node behind a WAN, a store at its other end, and a large file.
type overWAN struct {
	*WAN
	t    *testing.T
	work Work
	env  []string
	file string
	log  string // what the store was asked, a line for each call
}

func newOverWAN(t *testing.T) *overWAN {
	t.Helper()
	need(t)
	store, err := exec.LookPath("versitygw")
	if err != nil {
		t.Skip("needs versitygw: test/setup installs it")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("needs TUN devices")
	}
	o := &overWAN{t: t, work: Work{Programs: programs(t)}}
	r := newRig(t, 1, Link{Mbit: 1000})
	if o.WAN, err = r.NewWAN(t.Context(), r.Nodes[0], directConnect); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		must.Tell(t, o.WAN.Close())
	})
	root := filepath.Join(r.Hub.Dir, "store")
	o.log = filepath.Join(r.Hub.Dir, "access.log")
	must.Do(t, os.MkdirAll(filepath.Join(root, "bucket"), 0o755))
	server, err := r.Hub.Start(t.Context(), Command{Path: store, Args: []string{"--keep-alive", "--port", wanHub + ":9000", "--access", "scale", "--secret", "scale-secret", "--access-log", o.log, "posix", root}})
	if err == nil {
		t.Cleanup(server.Stop)
		err = server.Said(t.Context(), "listening on")
	}
	must.Do(t, err)
	o.env = []string{"AWS_ENDPOINT_URL_S3=http://" + wanHub + ":9000", "AWS_ACCESS_KEY_ID=scale", "AWS_SECRET_ACCESS_KEY=scale-secret", "AWS_REGION=us-east-1",
		"AWS_EC2_METADATA_DISABLED=true", "DATAMOVE_CONFIG="}
	o.file = filepath.Join(o.node.Dir, "model.bin")
	data := make([]byte, wanBytes)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data) // never fails
	must.Do(t, os.WriteFile(o.file, data, 0o600))
	return o
}

func (o *overWAN) start(args ...string) *Process {
	o.t.Helper()
	p := must.Get(o.node.Start(o.t.Context(), Command{Path: o.work.Datamove, Args: args, Env: o.env}))(o.t)
	return p
}

// failOver waits until a direction has brought some bytes, and then has the path fail over to the
// other one. The node is told by resets, or not.
func (o *overWAN) failOver(p *Process, brought func() int64, bytes int64, told bool) {
	o.t.Helper()
	most := 0
	for brought() < bytes {
		select {
		case <-p.ended:
			o.t.Fatalf("it ended before: %v", p.Wait())
		case <-time.After(20 * time.Millisecond):
		}
		n := must.Get(o.Connections(o.t.Context()))(o.t)
		most = max(most, n)
	}
	if most < wanJobs || most > wanJobs+1 { // one more for the lock, and what else is small
		o.t.Errorf("there were %d connections for %d jobs", most, wanJobs)
	}
	if !told {
		o.Lose()
	}
	must.Do(o.t, o.Reset(o.t.Context()))
	if told {
		time.Sleep(2 * (queueFor + directConnect.Delay)) // they arrive
		o.Lose()
	}
	time.Sleep(outage)
	must.Do(o.t, o.Take(context.WithoutCancel(o.t.Context()), vpn))
}

// ends waits for a copy that has to succeed, and looks how much more than the file was brought.
func (o *overWAN) ends(p *Process, brought func() int64) {
	o.t.Helper()
	if err := p.Wait(); err != nil {
		o.t.Fatalf("it fails: %v", err)
	}
	o.t.Logf("%d MiB were brought for %d MiB; it said\n%s", brought()>>20, int64(wanBytes)>>20, p.Stderr.String())
	if most := int64(wanBytes)*102/100 + wanJobs*wanParts; brought() > most {
		o.t.Errorf("%d bytes were brought, and with what was in flight %d are enough", brought(), most)
	}
}

var partPut = regexp.MustCompile(` s3_UploadPart \S+ \S*partNumber=(\d+)\S* (\d+) `)

// TestFailOverOfUpload: Direct Connect fails over to a VPN in the middle of an upload: all
// connections are reset, for a while nothing answers, and then the path is slow, long and has
// another address. That slows the copy and does not fail it, and what was there is not sent again.
func TestFailOverOfUpload(t *testing.T) {
	o := newOverWAN(t)
	p := o.start("copy", "--jobs", fmt.Sprint(wanJobs), o.file, "s3://bucket/up/")
	hub := func() int64 { n, _ := o.Brought(); return n }
	o.failOver(p, hub, wanBytes/2, true)
	o.ends(p, hub)
	text := must.Get(os.ReadFile(o.log))(t)
	stored := map[string]int{}
	twice := 0
	for _, m := range partPut.FindAllStringSubmatch(string(text), -1) {
		if m[2] == "200" {
			if stored[m[1]]++; stored[m[1]] == 2 {
				twice++
			}
		}
	}
	if len(stored) != wanBytes/wanParts || twice > wanJobs {
		t.Errorf("%d parts were stored, %d of them twice: %s", len(stored), twice, lastLines(string(text)))
	}
	if err := o.Take(t.Context(), directConnect); err != nil { // to look at it sooner
		t.Fatal(err)
	}
	must.Tell(t, o.start("verify", filepath.Dir(o.file), "s3://bucket/up/", "--include", "model.bin", "--exclude", "*").Wait())
}

// TestFailOverOfDownload is the same in the other direction, where a node that is not
// told only waits for what will never come.
func TestFailOverOfDownload(t *testing.T) {
	o := newOverWAN(t)
	must.Do(t, o.start("copy", "-q", o.file, "s3://bucket/up/").Wait())
	target := filepath.Join(o.node.Dir, "back")
	_, before := o.Brought()
	node := func() int64 { _, n := o.Brought(); return n - before }
	p := o.start("copy", "--jobs", fmt.Sprint(wanJobs), "s3://bucket/up/model.bin", target+"/")
	o.failOver(p, node, wanBytes/2, false)
	o.ends(p, node)
	got := must.Get(os.ReadFile(filepath.Join(target, "model.bin")))(t)
	want := must.Get(os.ReadFile(o.file))(t)
	if string(got) != string(want) {
		t.Error("what was brought differs")
	}
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
