package root

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// onReal runs commands in a directory of its own on a mounted file system, whose mount
// point an environment variable names. Who may not write there names a directory of it
// where he may, in the one that ends in _DIR.
func onReal(t *testing.T, variable string) (dir string, run func(args ...string) said) {
	mount := os.Getenv(variable)
	if mount == "" {
		t.Skipf("elsewhere: make lustre-test, e2e-ceph: needs %s, the mount point of a real one", variable)
	}
	below := strings.TrimSuffix(variable, "_MOUNT") + "_DIR"
	dir, err := os.MkdirTemp(cmp.Or(os.Getenv(below), mount), "datamove-commands-")
	if err != nil {
		t.Fatalf("%v (%s names a directory there which you may write)", err, below)
	}
	t.Cleanup(func() {
		must.Tell(t, os.RemoveAll(dir))
	})
	home := t.TempDir()
	return dir, func(args ...string) said {
		var out, err bytes.Buffer
		env := map[string]string{"HOME": home, "NO_COLOR": "1"}
		a := cli.App{In: strings.NewReader(""), Out: &out, Err: &err, Env: func(key string) string { return env[key] }}
		code := cli.ExitCode(execute(context.Background(), &a, args))
		t.Logf("%s\n%s%s", strings.Join(args, " "), out.String(), err.String())
		return said{out.String(), err.String(), code}
	}
}

// madeIn makes a directory.
func madeIn(t *testing.T, dir, base string) string {
	t.Helper()
	path := filepath.Join(dir, base)
	must.Do(t, os.Mkdir(path, 0o755))
	return path
}

// TestLayoutOnLustre sets layouts and follows advice on a real Lustre.
func TestLayoutOnLustre(t *testing.T) {
	root, run := onReal(t, "LUSTRE_MOUNT")
	dir, file := madeIn(t, root, "set"), filepath.Join(root, "set", "file")
	run("layout", "show", dir).wants(t, 0, `^BYTES +COUNT +STRIPE`)
	run("layout", "set", "--stripe-count", "2", "--stripe-size", "1MiB", dir).wants(t, 0, `^all +2  1.00 MiB .*/set$`)
	run("layout", "set", "--stripe-count", "1", "--stripe-size", "2MiB", file).wants(t, 0, `^all +1  2.00 MiB +\S+ +\d+ +.*/file$`)
	must.Do(t, os.WriteFile(file, bytes.Repeat([]byte("datamove"), 1<<20), 0o600))
	run("layout", "set", "--stripe-count", "2", "--stripe-size", "4MiB", file).wants(t, 0, `^all +2  4.00 MiB +\S+ +\d+,\d+ +.*/file$`)
	open := must.Get(os.OpenFile(file, os.O_RDWR, 0))(t)
	run("layout", "set", "--stripe-count", "1", file).wants(t, 5, `it is open somewhere`)
	run("layout", "set", "--stripe-count", "1", "--stripe-size", "2MiB", "--block", file).wants(t, 0, `^all +1  2.00 MiB .*/file$`)
	if got, err := io.ReadAll(open); err != nil || !bytes.Equal(got, bytes.Repeat([]byte("datamove"), 1<<20)) {
		t.Errorf("it has other bytes now: %d, %v", len(got), err)
	}
	must.Tell(t, open.Close())
	run("layout", "set", "--like", file, file+"2").wants(t, 0, `^all +1  2.00 MiB .*/file2$`)
	run("layout", "set", "--component", "64MiB,1,1MiB", "--component", "end,2,4MiB", dir).wants(t, 0, `^up to 64.0 MiB +1  1.00 MiB`, `^from 64.0 MiB +2  4.00 MiB`)
	run("layout", "set", "--stripe-count", "1", "--pool", "notthere", dir).wants(t, 2, `has no pool "notthere"`)
	run("layout", "set", "--stripe-count", "1999", file+"3").wants(t, 0, `note: component 1: 1999 stripes were asked for`)
	run("layout", "set", "--remove", dir).wants(t, 0)

	// What is advised can be set, and reads back as what was advised.
	for _, use := range lustre.Uses {
		var v adviceJSON
		s := run("layout", "advise", "--use", string(use), "--writers", "100", "-o", "json", dir)
		must.Do(t, json.Unmarshal([]byte(s.out), &v))
		run(strings.Fields(v.Commands[0])[1:]...).wants(t, 0)
		var got []layoutJSON
		must.Do(t, json.Unmarshal([]byte(run("layout", "show", "-o", "json", dir).out), &got))
		if d := lustre.Same(&v.Layout, &got[0].Layout, 0); d != "" {
			t.Errorf("%s: %s", use, d)
		}
	}
	run("layout", "set", "--advise", "--size", "10GiB", dir).wants(t, 0)
	run("doctor", dir).wants(t, 0, `servers: `, `layout: `)

	spread := run("layout", "set", "--mdt-count", "all", filepath.Join(root, "spread"))
	if os.Geteuid() == 0 {
		spread.wants(t, 0)
	}
}

// TestQuotaOnLustre sets a quota on a real Lustre, which takes root.
func TestQuotaOnLustre(t *testing.T) {
	root, run := onReal(t, "LUSTRE_MOUNT")
	dir := madeIn(t, root, "project")
	set := run("quota", "set", "--project", "424242", "--bytes", "64MiB", "--files", "1000", dir)
	if os.Geteuid() != 0 {
		set.wants(t, 4)
		return
	}
	set.wants(t, 0, `^424242 .* 64.0 MiB .* 1,000 .*/project$`)
	run("quota", "set", "--soft-bytes", "32MiB", dir).wants(t, 0, `^424242 .* 32.0 MiB +64.0 MiB .* 1,000 `)
	run("quota", "show", "-o", "wide", dir).wants(t, 0, `^424242 `, `OST`)
	run("quota", "set", "--bytes", "none", "--soft-bytes", "none", "--files", "none", dir).wants(t, 0, `^424242 +\S+ \S+ +- +- +\d+ +- +- `)
}

// TestCommandsOnCephFS sets layouts and quotas on a real CephFS. It has the pool
// cephfs.fast.data.
func TestCommandsOnCephFS(t *testing.T) {
	root, run := onReal(t, "CEPH_MOUNT")
	dir, below := madeIn(t, root, "a"), madeIn(t, root, "a/b")
	run("layout", "set", "--stripe-count", "4", "--stripe-size", "64KiB", "--pool", "cephfs.fast.data", dir).wants(t, 0, `^all +4  64.0 KiB  cephfs\.fast\.data .*/a \(objects of 4.00 MiB\)$`)
	run("layout", "show", below).wants(t, 0, `^all +4  64.0 KiB  cephfs\.fast\.data .*/a/b \(from .*/a, objects of 4.00 MiB\)$`)
	run("layout", "set", "--stripe-count", "2", "--stripe-size", "1MiB", filepath.Join(below, "file")).wants(t, 0, `^all +2  1.00 MiB  cephfs\.fast\.data`)
	run("layout", "set", "--like", filepath.Join(below, "file"), filepath.Join(below, "file2")).wants(t, 0, `^all +2  1.00 MiB  cephfs\.fast\.data`)
	run("layout", "set", "--stripe-count", "4", filepath.Join(below, "file")).wants(t, 5, `a file keeps the layout that it was made with`)
	run("layout", "set", "--stripe-count", "2", "--pool", "nope", dir).wants(t, 2, `there is no such pool`)
	run("layout", "set", "--component", "64MiB,1", "--component", "end,4", dir).wants(t, 1, `has one layout from its beginning to its end`)
	run("layout", "set", "--remove", dir).wants(t, 0)
	run("layout", "advise", dir).wants(t, 1, `it is for Lustre`)

	run("quota", "set", "--bytes", "1GiB", "--files", "1000", dir).wants(t, 0, `^directory .* 1.00 GiB .* 1,000 .* all .*/a$`)
	run("quota", "set", "--bytes", "100MiB", below).wants(t, 0, `^directory .* 100 MiB .*/a/b$`, `^directory .* 1.00 GiB .* 1,000 .*/a$`)
	run("quota", "set", "--make", "--bytes", "10MiB", filepath.Join(root, "made")).wants(t, 0, `^directory .* 10.0 MiB .*/made$`)
	run("quota", "set", "--project", "7", dir).wants(t, 1, `unsupported`)
	run("quota", "set", "--bytes", "none", below).wants(t, 0, `^directory +\S+ \S+ +1.00 GiB +1.00 GiB .*/a$`)
	run("doctor", dir).wants(t, 0, `quota: project .*/a holds`)
}
