package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

func summary(targets []lustre.Target) (s []string) {
	for _, t := range targets {
		state := ""
		if t.Inactive != "" {
			state = " inactive"
		}
		s = append(s, fmt.Sprintf("%v %d %s%v%s", t.Kind, t.Index, t.Name, t.Pools, state))
	}
	return s
}

func TestTargets(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.osts[1].Name = ""                   // a hole in the numbers
	f.inactive["lab-OST0003_UUID"] = true // and one that was switched off
	f.params["proc/fs/lustre/lov/lab-clilov-"+fakeInstance+"/pools/p1"].Data = []byte("lab-OST0000_UUID\nlab-OST0003_UUID\nother-OST0002_UUID\n")
	c := newClient(t, f)
	all, err := c.Targets(t.Context(), c.root)
	want := []string{"OST 0 lab-OST0000_UUID[p1]", "OST 2 lab-OST0002_UUID[]", "OST 3 lab-OST0003_UUID[p1] inactive",
		"MDT 0 lab-MDT0000_UUID[]", "MDT 1 lab-MDT0001_UUID[]", "pool 0 p1[]"}
	if got := summary(all); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\n got %q\nwant %q", err, got, want)
	}
	if o := all[0]; o.TotalBytes != 276968*4096 || o.FreeBytes != 257130*4096 || o.TotalFiles != 76800 || o.FreeFiles != 76431 {
		t.Errorf("OST 0: %+v", o)
	}
	if o := all[2]; o.TotalBytes != 0 || o.FreeBytes != 0 {
		t.Errorf("of one that does not answer nothing is known: %+v", o)
	}
	if p := all[5]; p.TotalBytes != 276968*4096 {
		t.Errorf("the pool: %+v", p)
	}
}

// A server that is down answers EAGAIN, too, when nobody waits for it: but it has a name.
func TestTargetsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	f := newFake()
	real := f.ioctls[uapi.IocTargetStatfs]
	f.ioctls[uapi.IocTargetStatfs] = func(h *handle, arg []byte, at []pointer) (int, error) {
		r, err := uapi.DecodeOBD(arg)
		if err == nil && r.Inline[0][0]&uapi.StatfsSoon != 0 && r.Inline[0][0]&uapi.StatfsOST != 0 && r.Inline[1][0] == 2 {
			copy(at[1].buffer, "lab-OST0002_UUID")
			return 0, unix.EAGAIN
		}
		return real(h, arg, at)
	}
	c := newClient(t, f)
	all, err := c.Targets(t.Context(), c.root)
	if err != nil || len(all) != 7 || all[2].Name != "lab-OST0002_UUID" || all[2].Inactive == "" {
		t.Errorf("%v, %q", err, summary(all))
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := c.Targets(ctx, c.root); !errors.Is(err, context.Canceled) {
		t.Errorf("after it was given up: %v", err)
	}
}

func TestTargetsWithoutEnd(t *testing.T) {
	t.Parallel()
	f := newFake()
	asked := 0
	f.ioctls[uapi.IocTargetStatfs] = func(*handle, []byte, []pointer) (int, error) { asked++; return 0, unix.EAGAIN }
	c := newClient(t, f)
	if all, err := c.targets(t.Context(), lustre.OST); err != nil || len(all) > 0 || asked != maxHoles {
		t.Errorf("%v after %d questions, %v; want none after %d", all, asked, err, maxHoles)
	}
	f.ioctls[uapi.IocTargetStatfs] = func(*handle, []byte, []pointer) (int, error) { return 0, unix.EINVAL }
	if all, err := c.Targets(t.Context(), c.root); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a client that is connected to nothing: %v, %v; want EINVAL", all, err)
	}
	f.ioctls[uapi.IocTargetStatfs] = nil
	if _, err := c.Targets(t.Context(), c.root); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v; want unsupported", err)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	f := newFake()
	c := newClient(t, f)
	got, err := c.Cluster(t.Context(), c.root)
	must.Do(t, err)
	if got.Name != "lab" || got.Version != "2.17.57" || len(got.OSTs) != 4 || len(got.MDTs) != 2 ||
		!reflect.DeepEqual(got.Pools, map[string][]int{"p1": {0, 1}}) || !got.Can.Progressive || !got.Can.OnMDT || !got.Can.Overstripes {
		t.Errorf("%+v", got)
	}
	if d := got.Default; len(d.Components) != 1 || d.Components[0].StripeBytes != 4<<20 || d.Components[0].StripeCount != 1 {
		t.Errorf("the default, of the client's parameters: %+v", d)
	}
	l := progressive()
	must.Do(t, c.SetDefault(t.Context(), c.root, l))
	got, err = c.Cluster(t.Context(), c.root)
	if d := lustre.Same(&l, &got.Default, 0); err != nil || d != "" {
		t.Errorf("the default of the root: %v, %s", err, d)
	}
}

func TestParametersThatLie(t *testing.T) {
	t.Parallel()
	f := newFake()
	lov := "sys/fs/lustre/lov/lab-clilov-" + fakeInstance
	c := newClient(t, f)
	for text, want := range map[string]int64{"4294967295": -1, "65535": -1, "-1": -1, "-7": 0, "many": 0, "": 0, "12": 12} {
		f.params[lov+"/stripecount"].Data = []byte(text)
		if got := c.number("stripecount"); got != want {
			t.Errorf("a stripe count of %q is %d; want %d", text, got, want)
		}
	}
	for text, want := range map[string]string{"2.17.57": "2.17.57", "lustre: 2.10.8\nkernel: patchless_client": "2.10.8"} {
		if got := parseVersion(text); got != want {
			t.Errorf("the version %q is %q; want %q", text, got, want)
		}
	}
	f.params["proc/fs/lustre/lov/lab-clilov-"+fakeInstance+"/pools/inherit"] = f.params[lov+"/numobd"]
	if pools, err := c.Pools(t.Context()); err != nil || len(pools) != 1 {
		t.Errorf("%v, %v; want p1, and no word with a meaning of its own", pools, err)
	}
	for name, want := range map[string]int{"lab-OST001f_UUID": 31, "lab-OST0000": 0} {
		if kind, index, ok := parseTarget(name, "lab"); !ok || kind != lustre.OST || index != want {
			t.Errorf("%s: %v %d %v", name, kind, index, ok)
		}
	}
	for _, name := range []string{"", "lab-OST", "lab-OST00000", "labs-OST0000_UUID", "lab-OSTxxxx", "OST0000", "lab-MDS0000"} {
		if kind, index, ok := parseTarget(name, "lab"); ok {
			t.Errorf("%q is %v %d", name, kind, index)
		}
	}
}
