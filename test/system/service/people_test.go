package service

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// newTown is a cluster in which work is done as people.
func newTown(t *testing.T, agents ...string) *cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as others")
	}
	c := newCluster(t)
	for dir := c.Dir; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) { // everybody gets through
		must.Do(t, os.Chmod(dir, 0o755))
	}
	c.Accounts = rig.Accounts(t)
	worker := filepath.Join(c.Dir, "worker")
	if out, err := exec.Command("cp", c.Program[0], worker).CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	c.Program[0] = worker
	for _, dir := range []string{worker, c.Dir + "/shared", c.Dir + "/scratch"} {
		must.Do(t, os.Chmod(dir, 0o755))
	}
	must.Do(t, os.MkdirAll(filepath.Join(c.Dir, "agents"), 0o755))
	for _, name := range agents {
		c.Join(name)
	}
	return c
}

// giveTo makes everything below a path somebody's.
func (c *cluster) giveTo(name, path string) {
	c.t.Helper()
	err := filepath.WalkDir(path, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, int(rig.People[name]), int(rig.People[name]))
	})
	must.Do(c.t, err)
}

// doAs runs a command as somebody, and returns what it says.
func (c *cluster) doAs(name string, args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: rig.People[name], Gid: rig.People[name]}}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// stageAs asks as somebody for a dataset on a node's scratch, and waits until it is there.
func (c *cluster) stageAs(name, source, node string) (*pb.StageResponse, error) {
	c.t.Helper()
	a, err := c.Stage(rig.As(name), &pb.StageRequest{Source: source, Tier: "scratch", Node: node, LeaseTtl: durationpb.New(time.Hour)})
	if err == nil && a.GetTask() != nil {
		c.Done(a.GetTask().GetId())
	}
	return a, err
}

// addAs adds a dataset as somebody.
func (c *cluster) addAs(who, name, location string) {
	c.t.Helper()
	t := must.Get(c.AddDataset(rig.As(who), &pb.AddDatasetRequest{Name: name, Location: location}))(c.t)
	c.Done(t.GetId())
}

// What is in the cache of a node is for who may read it where it came from, at this moment.
//
//safety:7 a right to read the source that is taken away while replicas are there
func TestMayReadNow(t *testing.T) {
	c := newTown(t, "n1", "n2")
	source := c.Tree("shared/lab/vision", 20, 1, 8<<20)
	c.giveTo("alice", filepath.Join(c.Dir, "shared/lab"))
	c.addAs("alice", "vision", "shared:lab/vision")
	if _, err := c.stageAs("alice", "dataset:vision", "n1"); err != nil {
		t.Fatal(err)
	}
	lab := filepath.Dir(source)
	mode := func(path string, m os.FileMode) {
		t.Helper()
		must.Do(t, os.Chmod(path, m))
	}
	leases := func() int { return c.LeasesOf("vision")["bob"] }
	hits := func() error {
		a, err := c.stageAs("bob", "dataset:vision", "n1")
		if err == nil && (a.GetTask() != nil || a.GetLease().GetHolder() != "bob") {
			t.Errorf("bob gets %v", a)
		}
		return err
	}
	takes := func() error {
		_, err := c.AcquireLease(rig.As("bob"), &pb.AcquireLeaseRequest{Dataset: "vision", Tier: "scratch", Node: "n1", Ttl: durationpb.New(time.Hour)})
		return err
	}
	first := ""
	err := filepath.WalkDir(source, func(p string, e os.DirEntry, err error) error {
		if first == "" && err == nil && e.Type().IsRegular() {
			first = p
		}
		return err
	})
	must.Do(t, err)
	for _, row := range []struct {
		what, path string
		shut, open os.FileMode
	}{
		{"a closed folder above it", lab, 0o700, 0o755},
		{"its root can not be listed", source, 0o711, 0o755},
		{"a file can not be opened", first, 0o600, 0o644},
	} {
		mode(row.path, row.shut)
		if out, err := c.doAs("bob", "sh", "-c", "ls "+source+" && cat "+first); err == nil {
			t.Errorf("%s: bob can read the source: %s", row.what, out)
		}
		for _, ask := range []func() error{hits, takes} {
			if err := ask(); !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), "where it came from") {
				t.Errorf("%s: %v", row.what, err)
			}
		}
		mode(row.path, row.open)
	}
	if n := leases(); n != 0 {
		t.Errorf("bob has %d leases", n)
	}
	if err := errors.Join(hits(), takes()); err != nil || leases() != 2 {
		t.Fatalf("bob may read, and has %d leases: %v", leases(), err)
	}
	mode(lab, 0o700)
	c.Until("the next hit is refused", func() bool { return errors.Is(hits(), mover.ErrPermission) })
	if err := takes(); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("a lease: %v", err)
	}
	if _, err := c.stageAs("alice", "dataset:vision", "n1"); err != nil {
		t.Errorf("who may read it: %v", err)
	}
	// Who waits for what somebody else brings.
	c.Slowly("scratch", 4<<20)
	a, err := c.Stage(rig.As("alice"), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n2"})
	must.Do(t, err)
	if _, err := c.Stage(rig.As("bob"), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n2"}); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("bob joins: %v", err)
	}
	c.Done(a.GetTask().GetId())
	c.Leave("n2")
	c.Leave("n1") // which may be seen a moment later
	if _, err := c.Stage(rig.As("bob"), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"}); !errors.Is(err, mover.ErrUnreachable) {
		t.Errorf("nobody can look: %v", err)
	}
}
