package client

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// usage is what the test binary says when it is not told where a Lustre is.
const usage = `lustre.test tries what datamove does with a Lustre on a mounted one.

  LUSTRE_MOUNT=/mnt/lustre ./lustre.test -test.v [-test.run Real]

Run it as root, and again as a user. Everything is made in a new directory, and taken away.
What can not be tried is skipped, and says what it needs. Variables:

  LUSTRE_MOUNT    where a client has mounted the Lustre
  LUSTRE_DIR      a directory of it that you may write; the mount, if not set
  LUSTRE_READER   registered readers of change logs, which nobody else uses, for as many MDTs
                  as there are: lab-MDT0000:cl1,lab-MDT0001:cl1; they are cleared. Get one by
                  lctl --device lab-MDT0000 changelog_register on the server of that MDT
  LUSTRE_ARCHIVE  the number of an archive that no copytool serves; 7, if not set

Best are two MDTs, two OSTs or more, a pool, enforced quotas of projects, and HSM enabled.
`

// longest is when a run on a real Lustre is given up: a server that does not answer is
// waited for in the kernel, where no deadline is heard.
const longest = 30 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	if why := notReady(filepath.Base(os.Args[0]), os.Getenv("LUSTRE_MOUNT")); why != nil {
		fmt.Fprintln(os.Stderr, why)
		os.Exit(2)
	}
	if limit := flag.Lookup("test.timeout"); limit.Value.String() == "0s" {
		if err := limit.Value.Set(longest.String()); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// notReady says why the tests would try nothing: the binary for a site is run without a
// Lustre. What go test builds has another name, and goes on.
func notReady(program, mount string) error {
	switch {
	case mount == "" && program == "lustre.test":
		return errors.New(usage)
	case mount == "" || os.Getenv(writeTo) != "":
		return nil
	}
	c, err := Open(mount)
	if err != nil {
		return fmt.Errorf("LUSTRE_MOUNT=%s is not where a Lustre is mounted, or can not be opened: %w\n\n%s", mount, err, usage)
	}
	return c.Close()
}

func TestNotReady(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		program, mount string
		ready          bool
	}{{"lustre.test", "", false}, {"client.test", "", true}, {"lustre.test", t.TempDir(), false}, {"lustre.test", "/nowhere", false}} {
		if err := notReady(c.program, c.mount); (err == nil) != c.ready {
			t.Errorf("%s on %q: %v", c.program, c.mount, err)
		}
	}
}

// ArchiveNumber is that of an archive that nobody serves, for tests outside the package, too.
func ArchiveNumber(t *testing.T) uint32 {
	t.Helper()
	var n uint32
	text := cmp.Or(os.Getenv("LUSTRE_ARCHIVE"), "7")
	if _, err := fmt.Sscanf(text, "%d", &n); err != nil || n == 0 {
		t.Fatalf("LUSTRE_ARCHIVE=%s is not the number of an archive", text)
	}
	return n
}
