package client

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre/uapi"
)

// The lines of a machine that is client and server at once: only one is a client's mount.
func TestParseMount(t *testing.T) {
	t.Parallel()
	clients := map[string]Mount{}
	for line := range strings.Lines(record(t, "mount-line")) {
		if w := strings.Fields(line); len(w) == 6 {
			if m, ok := ParseMount(w[0], w[2], strings.Split(w[3], ",")); ok {
				clients[w[1]] = m
			}
		}
	}
	if want := (map[string]Mount{"/mnt/lustre": {Servers: "10.77.0.1@tcp", Name: "lab"}}); !reflect.DeepEqual(clients, want) {
		t.Errorf("%+v; want %+v", clients, want)
	}
	for source, want := range map[string]Mount{
		"10.0.0.1@o2ib,10.1.0.1@tcp:10.0.0.2@o2ib:/scratch/team/a/": {"10.0.0.1@o2ib,10.1.0.1@tcp:10.0.0.2@o2ib", "scratch", "/team/a"},
		"fd00::1@tcp:/lab": {"fd00::1@tcp", "lab", ""},
	} {
		if got, ok := ParseMount(source, "lustre", nil); !ok || got != want {
			t.Errorf("%s: %+v, %v; want %+v", source, got, ok, want)
		}
	}
	for _, source := range []string{"", ":/lab", "10.0.0.1@tcp:/", "10.0.0.1@tcp:/..", "server:/export", "/dev/sda", "10.0.0.1@tcp"} {
		if got, ok := ParseMount(source, "lustre", nil); ok {
			t.Errorf("%q is a mount: %+v", source, got)
		}
	}
	if _, ok := ParseMount("10.0.0.1@tcp:/lab", "nfs", nil); ok {
		t.Error("another type is a mount of Lustre")
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	if _, err := Open(t.TempDir()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a directory of this machine: %v; want unsupported", err)
	}
	if _, err := Open(t.TempDir() + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing: %v; want not there", err)
	}
	f := newFake()
	c := newClient(t, f)
	if version, err := c.Version(); c.Name != "lab" || c.instance != fakeInstance || err != nil || version != "2.17.57" {
		t.Errorf("%+v, version %q, %v", c, version, err)
	}
	for _, name := range []string{"", "lab-MDT0000", "-clilov-ffff", "lab-clilov-", "../etc-clilov-ffff", "lab-clilov-../../x"} {
		f.ioctls[uapi.IocLOVName] = func(_ *handle, arg []byte, _ []pointer) (int, error) { copy(arg, name+"\x00"); return 0, nil }
		if _, err := open(f, c.root, "/mnt/lustre"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("one that calls itself %q: %v; want unsupported", name, err)
		}
	}
	f.fails["ioctl 0x8080667f"] = unix.EIO
	if _, err := open(f, c.root, "/mnt/lustre"); !errors.Is(err, unix.EIO) || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v; want EIO", err)
	}
}
