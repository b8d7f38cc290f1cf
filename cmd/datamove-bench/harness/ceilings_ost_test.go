package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"datamove.dev/bench/hardware"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// ofTwo are the layouts of a file system with two OSTs: what is tested is what is asked of it.
type ofTwo struct {
	lustre.Layouts
	asked []string // by directory: the OST
}

func (l *ofTwo) Cluster(context.Context, int) (lustre.Cluster, error) {
	return lustre.Cluster{OSTs: []lustre.Target{{Kind: lustre.OST, Index: 0}, {Kind: lustre.OST, Index: 7}}}, nil
}

func (l *ofTwo) SetDefault(_ context.Context, fd int, layout lustre.Layout) error {
	dir, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	c := layout.Components[0]
	l.asked = append(l.asked, fmt.Sprintf("%s %d of %d", dir[strings.LastIndexByte(dir, '/')+1:], c.FirstTarget, c.StripeCount))
	return errors.Join(err, layout.Validate())
}

// TestOSTs: each OST has a directory whose files lie on it alone, is measured there, and nothing is left; a file system without any says so.
func TestOSTs(t *testing.T) {
	dir := t.TempDir()
	var l ofTwo
	all := must.Get(eachOST(t.Context(), hardware.Options{Runs: 1, Size: 8 << 20}, dir, -1, &l))(t)
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	if strings.Join(names, " ") != "ost0000.write ost0000.read ost0007.write ost0007.read" || strings.Join(l.asked, ", ") != "ost0000 0 of 1, ost0007 7 of 1" {
		t.Errorf("%q, %q", names, l.asked)
	}
	empty(t, dir)
	if out, code := run(t, "", "ceilings", "--runs", "1", "--time", "1ms", "--osts", dir); code != 1 || !strings.Contains(out, "--osts") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if _, err := ofOSTs(t.Context(), hardware.Options{}, dir); !errors.Is(err, mover.ErrUnsupported) {
		t.Error(err)
	}
}
