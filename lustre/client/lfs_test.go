package client

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// printed is what a program printed for a command, without the command and its result.
func printed(t testing.TB, name string) string {
	t.Helper()
	_, text, _ := strings.Cut(record(t, name), "\n")
	if i := strings.LastIndex(text, "rc="); i >= 0 {
		text = text[:i]
	}
	return text
}

func object(target int, fid string) lustre.Object {
	f, err := lustre.ParseFID(fid)
	if err != nil {
		panic(err)
	}
	return lustre.Object{Target: target, FID: f}
}

func TestParseGetstripe(t *testing.T) {
	t.Parallel()
	plain := striped(mib, 2)
	plain.Components[0].Objects = []lustre.Object{object(1, "0x300000401:0x22:0x0"), object(2, "0x2c0000401:0x22:0x0")}
	plain.Components[0].Stored.HasGeneration = true
	pool := edit(striped(4*mib, 2), func(c *lustre.Component) {
		c.Pool, c.Stored.HasGeneration = "p1", true
		c.Objects = []lustre.Object{object(1, "0x300000401:0x23:0x0"), object(0, "0x280000401:0x22:0x0")}
	})
	released := edit(striped(mib, 2), func(c *lustre.Component) {
		c.Flags, c.Stored.HasGeneration, c.Stored.Generation = lustre.Released, true, 1
	})
	pfl := progressive()
	pfl.Generation, pfl.Mirrors = 4, 1
	pfl.Components[0].Objects = []lustre.Object{object(3, "0x340000401:0x22:0x0")}
	pfl.Components[1].Objects = []lustre.Object{object(0, "0x280000401:0x23:0x0"), object(1, "0x300000401:0x24:0x0")}
	for i := range pfl.Components {
		pfl.Components[i].ID, pfl.Components[i].Stored.HasGeneration = uint32(i+1), true
		if i < 2 {
			pfl.Components[i].Flags = lustre.Initialised
		}
	}
	preset := lustre.Layout{Mirrors: 1, Components: []lustre.Component{part(0, mib, 4*mib, 1), part(mib, lustre.EOF, 4*mib, 4)}}
	for name, want := range map[string]lustre.Layout{"getstripe-y-plain": plain, "getstripe-y-pool": pool, "getstripe-y-released": released,
		"getstripe-y-pfl": pfl, "getstripe-y-dir": preset, "getstripe-y-foreign": {Foreign: &lustre.Foreign{Value: []byte("hello")}}} {
		if got, err := parseGetstripe(printed(t, name)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, want)
		}
	}
	over, err := parseGetstripe(printed(t, "getstripe-y-over"))
	if err != nil || over.Components[0].Pattern != lustre.Overstriped || len(over.Components[0].Objects) != 8 {
		t.Errorf("overstriped: %+v, %v", over, err)
	}
	dom, err := parseGetstripe(printed(t, "getstripe-y-dom"))
	if err != nil || len(dom.Components) != 2 || dom.Components[0].Pattern != lustre.OnMDT || dom.Components[0].End != 64<<10 {
		t.Errorf("on the MDT: %+v, %v", dom, err)
	}
	flr, err := parseGetstripe(printed(t, "getstripe-y-flr"))
	if err != nil || flr.Mirrors != 2 || flr.Mirrored != lustre.WritePending || flr.Components[1].Mirror() != 2 || !flr.Components[1].Flags.Has(lustre.Initialised|lustre.Stale) {
		t.Errorf("mirrored: %+v, %v", flr, err)
	}
	if _, err := parseGetstripe(printed(t, "getstripe-y-dir-none")); !errors.Is(err, lustre.ErrInherited) {
		t.Errorf("a directory without default: %v; want inherited", err)
	}
	for _, text := range []string{"", "no such file", "lmm_stripe_count: many\nlmm_pattern: raid0\n", "lcme_id: x\n", "lmm_stripe_count: 1\nlmm_pattern: raid0\nl_fid: 0x1:0x2:0x3\n"} {
		if l, err := parseGetstripe(text); !errors.Is(err, errPrinted) {
			t.Errorf("%q: %+v, %v; want not understood", text, l, err)
		}
	}
}

func TestParseQuota(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	under := lustre.Quota{Limits: lustre.Limits{SoftBytes: 49152 << 10, HardBytes: 65536 << 10, SoftFiles: 90, HardFiles: 100},
		UsedBytes: 8200 << 10, UsedFiles: 4, CountsFiles: true, HasSoft: true}
	over := under
	over.UsedBytes, over.UsedFiles, over.BytesUntil = 59400<<10, 5, now.Add(7*24*time.Hour-time.Second)
	for name, want := range map[string]lustre.Quota{"quota-q-p": under, "quota-over-soft-q": over} {
		if got, err := parseQuota(printed(t, name), now); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	wrapped := "/a/mount/with/a/name/that/is/long\n" + strings.Replace(printed(t, "quota-q-p"), "/mnt/lustre", "", 1)
	if got, err := parseQuota(wrapped, now); err != nil || got.UsedFiles != 4 {
		t.Errorf("on two lines: %+v, %v", got, err)
	}
	for _, text := range []string{"", "/mnt/lustre 1 2 3 - 4 5 6", "/mnt/lustre x 2 3 - 4 5 6 -", "/mnt/lustre -1 2 3 - 4 5 6 -"} {
		if got, err := parseQuota(text, now); !errors.Is(err, errPrinted) {
			t.Errorf("%q: %+v, %v; want not understood", text, got, err)
		}
	}
}

func TestParseDF(t *testing.T) {
	t.Parallel()
	got, err := parseDF(printed(t, "df"), printed(t, "df-i"), "lab")
	if err != nil || len(got) != 6 {
		t.Fatalf("%q, %v", summary(got), err)
	}
	want := lustre.Target{Kind: lustre.OST, Index: 1, Name: "lab-OST0001_UUID", TotalBytes: 1107872 << 10, FreeBytes: 995676 << 10, TotalFiles: 76800, FreeFiles: 76292}
	if !reflect.DeepEqual(got[3], want) {
		t.Errorf("%+v; want %+v", got[3], want)
	}
	down, err := parseDF("lab-OST0002_UUID : inactive device\n", "", "lab")
	if err != nil || len(down) != 1 || down[0].Inactive == "" {
		t.Errorf("one that is down: %+v, %v", down, err)
	}
	if _, err := parseDF("df: no such thing\n", "", "lab"); !errors.Is(err, errPrinted) {
		t.Errorf("%v; want not understood", err)
	}
}

// The program is asked where the kernel does not answer, by arguments, and not otherwise.
func TestProgram(t *testing.T) {
	t.Parallel()
	f := newFake()
	c := newClient(t, f)
	var asked []string
	c.program = lfs{
		where: func(int) (string, error) { return "/mnt/lustre/a b;c", nil },
		run: func(_ context.Context, args ...string) (string, error) {
			asked = append(asked, strings.Join(args, "|"))
			return printed(t, map[string]string{"getstripe": "getstripe-y-plain", "quota": "quota-q-p", "df|/mnt/lustre": "df", "df|-i": "df-i",
				"pool_list|lab": "pool_list", "pool_list|lab.p1": "pool_list2"}[key(args)]), nil
		},
	}
	dir := f.openDir(t, ".")
	if _, err := c.Targets(t.Context(), dir); err != nil || len(asked) > 0 {
		t.Errorf("%v; asked %q, which the kernel answers", err, asked)
	}
	f.fails["getxattr"], f.fails["ioctl 0xc0b066a2"], f.fails["ioctl 0xc00866a4"] = unix.EOPNOTSUPP, unix.ENOTTY, unix.ENOTTY
	for name := range f.params {
		delete(f.params, name)
	}
	if l, err := c.Layout(t.Context(), dir); err != nil || l.Components[0].StripeCount != 2 {
		t.Errorf("layout: %+v, %v", l, err)
	}
	if q, err := c.Quota(t.Context(), dir, lustre.Project{ID: 4242}); err != nil || q.UsedFiles != 4 || q.Project.ID != 4242 {
		t.Errorf("quota: %+v, %v", q, err)
	}
	if all, err := c.Targets(t.Context(), dir); err != nil || len(all) != 6 {
		t.Errorf("targets: %q, %v", summary(all), err)
	}
	if pools, err := c.Pools(t.Context()); err != nil || !reflect.DeepEqual(pools, map[string][]int{"p1": {0, 1}}) {
		t.Errorf("pools: %v, %v", pools, err)
	}
	want := []string{"getstripe|-y|-d|/mnt/lustre/a b;c", "quota|-q|-p|4242|/mnt/lustre", "df|/mnt/lustre", "df|-i|/mnt/lustre", "pool_list|lab", "pool_list|lab.p1"}
	if !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %q; want %q", asked, want)
	}
}

func key(args []string) string {
	if args[0] == "df" || args[0] == "pool_list" {
		return args[0] + "|" + args[1]
	}
	return args[0]
}

// The real wiring, of a program that prints too much, one that fails, and none.
func TestProgramsThatAreHostile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := (lfs{}).output(t.Context(), "df"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("none: %v; want unsupported", err)
	}
	write := func(script string) {
		must.Do(t, os.WriteFile(dir+"/lfs", []byte("#!/bin/sh\n"+script), 0o755))
	}
	write("exit 0")
	if _, err := (lfs{}).output(t.Context(), "df"); errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		t.Skip("needs a temporary directory from which programs can be run: ", err)
	}
	write("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done")
	if _, err := (lfs{}).output(t.Context(), "df"); !errors.Is(err, errPrintsTooMuch) {
		t.Errorf("output without end: %v", err)
	}
	write("echo '$1 is not \"quoted\"' $1 >&2; exit 3")
	if _, err := (lfs{}).output(t.Context(), "$(exit 7)"); err == nil || !strings.Contains(err.Error(), "$(exit 7)") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v; want what it said, and its arguments as they are", err)
	}
	write("echo $LC_ALL")
	if text, err := (lfs{}).output(t.Context(), "df"); err != nil || text != "C\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func FuzzPrinted(f *testing.F) {
	for _, name := range []string{"getstripe-y-pfl", "getstripe-y-flr", "getstripe-y-plain", "quota-q-p", "df"} {
		f.Add(printed(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := parseGetstripe(text); err == nil && l.IsZero() {
			t.Error("a layout that says nothing")
		}
		if q, err := parseQuota(text, time.Unix(0, 0)); err == nil && (q.UsedBytes < 0 || q.HardBytes < 0 || q.SoftFiles < 0) {
			t.Errorf("%+v", q)
		}
		if all, err := parseDF(text, text, "lab"); err == nil {
			for _, target := range all {
				if target.TotalBytes < 0 || target.FreeFiles < 0 {
					t.Errorf("%+v", target)
				}
			}
		}
	})
}

// TestParseExtension: the component into which the one before it grows has one stripe, whether lfs prints that or, as 2.17.57 does, none.
func TestParseExtension(t *testing.T) {
	for _, stripes := range []string{"0", "1"} {
		l, err := parseGetstripe("lcm_layout_gen: 2\nlcm_mirror_count: 1\nlcm_entry_count: 2\ncomponents:\n" +
			"  - lcme_id: 1\n    lcme_flags: init\n    lcme_extent.e_start: 0\n    lcme_extent.e_end: 67108864\n    sub_layout:\n      lmm_stripe_count: 2\n      lmm_stripe_size: 1048576\n      lmm_pattern: raid0\n" +
			"  - lcme_id: 2\n    lcme_flags: extension\n    lcme_extent.e_start: 67108864\n    lcme_extent.e_end: EOF\n    sub_layout:\n      lmm_stripe_count: " + stripes + "\n      lmm_extension_size: 67108864\n      lmm_pattern: raid0\n")
		if err != nil || len(l.Components) != 2 {
			t.Fatalf("%+v, %v", l, err)
		}
		if c := l.Components[1]; c.StripeCount != 1 || c.StripeBytes != 64<<20 || !c.Flags.Has(lustre.Extension) || l.Components[0].StripeCount != 2 {
			t.Errorf("%s: %+v", stripes, c)
		}
	}
}
