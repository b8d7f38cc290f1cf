package copytool

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// TestLayoutOfRestored: what a restore asks for is laid out as the file was, with objects
// of its own, and is not released.
func TestLayoutOfRestored(t *testing.T) {
	if _, err := os.Stat("../abi/testdata"); errors.Is(err, os.ErrNotExist) {
		t.Skip("elsewhere: make check: the bytes of a real Lustre are beside the source")
	}
	for _, row := range []struct {
		file       string
		components int
	}{
		{"lov-released.bin", 1}, {"lov-v3-pool.bin", 1}, {"lov-overstriped.bin", 1}, {"lov-pfl.get-2inited.bin", 3}, {"lov-flr.get.bin", 1},
	} {
		stored, err := os.ReadFile("../abi/testdata/" + row.file)
		must.Do(t, err)
		was, err := uapi.DecodeLayout(stored)
		must.Do(t, err)
		got, err := uapi.DecodeLayout(requestOf(stored))
		if err != nil || len(got.Components) != row.components || got.Released() || got.Mirrored != lustre.NotMirrored {
			t.Errorf("%s became %+v, %v", row.file, got, err)
			continue
		}
		for i := range got.Components {
			g, w := &got.Components[i], &was.Components[i]
			if g.Start != w.Start || g.End != w.End || g.StripeBytes != w.StripeBytes || g.StripeCount != w.StripeCount || g.Pool != w.Pool || g.Pattern != w.Pattern || len(g.Objects) > 0 {
				t.Errorf("%s, component %d: %+v became %+v", row.file, i, w, g)
			}
		}
	}
	for _, none := range []string{"", "\xd0\x0b\xd7\x0b", strings.Repeat("x", 100)} {
		if requestOf([]byte(none)) != nil {
			t.Errorf("%q became a request", none)
		}
	}
}

// TestVolatileName: the name that Lustre takes for a file without one says on which MDT it
// is to be, when that can be known.
func TestVolatileName(t *testing.T) {
	for _, row := range []struct {
		index int
		err   error
		want  string
	}{{1, nil, ":VOLATILE:0001:"}, {0, unix.ENOTTY, ":VOLATILE::"}, {1 << 20, nil, ":VOLATILE::"}} {
		m := &mount{root: os.Stdin, ioctl: func(_ int, request uint, _ []byte) (int, error) {
			if request != uapi.IocFIDToMDT {
				t.Errorf("asked for %#x", request)
			}
			return row.index, row.err
		}}
		one, two := m.volatileName(lustre.FID{}), m.volatileName(lustre.FID{})
		if !strings.HasPrefix(one, ".\x0c\x13\x14\x12"+row.want) || one == two {
			t.Errorf("%q, %q", one, two)
		}
	}
}
