package root

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// said is what a command printed, and how it ended.
type said struct {
	out, err string
	code     int
}

// onLustre runs commands on a Lustre.
func onLustre(f *fakeLustre) func(args ...string) said {
	return func(args ...string) said {
		var out, err bytes.Buffer
		env := map[string]string{"HOME": f.root, "NO_COLOR": "1"}
		a := cli.App{In: strings.NewReader(""), Out: &out, Err: &err, Env: func(key string) string { return env[key] }, OpenSystem: f.open}
		code := cli.ExitCode(execute(context.Background(), &a, args))
		return said{out.String(), err.String(), code}
	}
}

// wants checks what was said: the exit code, and expressions that some line matches.
func (s said) wants(t *testing.T, code int, lines ...string) {
	t.Helper()
	if s.code != code {
		t.Errorf("exit %d, want %d", s.code, code)
	}
	for _, line := range lines {
		if !regexp.MustCompile("(?m)" + line).MatchString(s.out + s.err) {
			t.Errorf("no line is %s", line)
		}
	}
	if t.Failed() {
		t.Fatalf("stdout:\n%s\nstderr:\n%s", s.out, s.err)
	}
}

// TestLayoutCommands is a session on a Lustre of four OSTs.
func TestLayoutCommands(t *testing.T) {
	root := t.TempDir()
	f := newFakeLustre(root)
	run := onLustre(f)
	dir, file := filepath.Join(root, "set"), filepath.Join(root, "set", "file")
	must.Do(t, os.Mkdir(dir, 0o755))

	// A directory without a layout of its own has that of the file system.
	run("layout", "show", dir).wants(t, 0, `^BYTES +COUNT +STRIPE +POOL +OSTS +PATH$`, `^all +1  1.00 MiB  - +- +/.*/set \(from the file system\)$`)
	// It gets one, which is printed.
	run("layout", "set", "--stripe-count", "2", "--stripe-size", "4MiB", "--pool", "flash", dir).wants(t, 0, `^all +2  4.00 MiB  flash +- +/.*/set$`)
	run("layout", "set", "--component", "256KiB,mdt", "--component", "4GiB,1,4MiB", "--component", "end,over8,4MiB,flash", dir).wants(t, 0,
		`^up to 256 KiB +mdt .*/set$`, `^256 KiB - 4.00 GiB +1  4.00 MiB`, `^from 4.00 GiB +over8  4.00 MiB  flash`)
	// And loses it.
	run("layout", "set", "--remove", dir).wants(t, 0, `set \(from the file system\)$`)

	// A file is made with a layout.
	run("layout", "set", "--stripe-count", "99", file).wants(t, 0, `note: component 1: 99 stripes were asked for, and there are 4 OSTs`, `^all +4 +- +- +0,1,2,3 +/.*/file$`)
	// Another gets the same, on OSTs of its own.
	run("layout", "set", "--like", file, file+"2").wants(t, 0, `^all +4 .*file2$`)
	if l := f.layouts[file+"2"]; l.Components[0].FirstTarget != lustre.AnyTarget {
		t.Errorf("its OSTs were taken over, too: %+v", l)
	}

	// A directory is made with its entries spread, and its files striped.
	spread := filepath.Join(root, "spread")
	run("layout", "set", "--mdt-count", "2", "--stripe-count", "3", spread).wants(t, 0, `^all +3 .*/spread \(entries on 2 MDTs by \w+\)$`)
	run("layout", "set", "--mdt-count", "all", spread).wants(t, 5)
	run("layout", "set", "--mdt-count", "2", "--pool", "gone", spread+"2").wants(t, 2)
	if _, err := os.Stat(spread + "2"); err == nil {
		t.Error("a directory without its layout is there")
	}
	delete(f.layouts, spread)

	// What is wrong is said before anything is done.
	run("layout", "set", "--stripe-count", "2", "--pool", "flesh", dir).wants(t, 2, `has no pool "flesh"`, `try: one of: flash`)
	run("layout", "set", "--stripe-size", "100000", dir).wants(t, 2, `want a multiple of 64.0 KiB`)
	run("layout", "set", "--component", "end,mdt", dir).wants(t, 2, `what lies on the MDT is the beginning`)
	run("layout", "set", "--component", "1GiB", dir).wants(t, 2, `want END,COUNT`)
	run("layout", "set", "--component", "1GiB,4", dir).wants(t, 2, `the last component ends at 1.00 GiB, and a file could not become longer`)
	run("layout", "set", "--stripe-count", "2", "--remove", dir).wants(t, 2, `say one$`)
	run("layout", "set", "--remove", file+"3").wants(t, 3)
	if len(f.layouts) != 2 {
		t.Errorf("something was set: %v", f.layouts)
	}

	// A file system that says yes and does not do it is found out.
	f.ignores = true
	run("layout", "set", "--stripe-count", "2", dir).wants(t, 1, `it was taken and not done`, `try: datamove layout show`)
	run("layout", "set", "--stripe-count", "2", file+"4").wants(t, 1, `it was taken and not done`)
	if _, err := os.Stat(file + "4"); err == nil {
		t.Error("a file without its layout is there")
	}
}

// TestLayoutRestripe: a file that is there gets another layout, or is left as it is.
func TestLayoutRestripe(t *testing.T) {
	root := t.TempDir()
	f := newFakeLustre(root)
	run := onLustre(f)
	paths := map[string]string{}
	for _, name := range []string{"one", "two", "open", "released", "mirrored"} {
		paths[name] = created(t, filepath.Join(root, name))
		f.layouts[paths[name]] = plainLayout(1, 1<<20, "")
	}
	must.Do(t, os.Symlink("one", filepath.Join(root, "link")))
	released, mirrored := plainLayout(1, 1<<20, ""), plainLayout(1, 1<<20, "")
	released.Components[0].Flags |= lustre.Released
	mirrored.Components[0].ID = 1<<16 | 1
	mirrored.Components = append(mirrored.Components, mirrored.Components[0])
	mirrored.Components[1].ID = 2<<16 | 2
	f.layouts[paths["released"]], f.layouts[paths["mirrored"]] = released, mirrored

	set := []string{"layout", "set", "--stripe-count", "4", "--stripe-size", "4MiB"}
	run(append(set, filepath.Join(root, "link"))...).wants(t, 0, `^all +4  4.00 MiB .*/link$`)
	if l := f.layouts[paths["one"]]; l.Components[0].StripeCount != 4 {
		t.Errorf("what the link is of has %+v", l)
	}
	// Those that can not be moved do not keep the others from it.
	run(append(set, paths["open"], paths["released"], paths["mirrored"], paths["two"])...).wants(t, 5,
		`layout of .*/open: it is open somewhere`, `try: --block`, `layout of .*/released: its content is in the archive only`, `/mirrored: .*it has mirrors`, `^all +4  4.00 MiB .*/two$`)
	run(append(set, paths["released"])...).wants(t, 1, `^try: lfs hsm_restore /.*/released, and this again$`)
	run(append(set, paths["mirrored"])...).wants(t, 5, `^try: lfs mirror`)
	run(append(set, "--block", "-o", "json", paths["open"])...).wants(t, 0, `"stripe_count":4`)
	run("layout", "set", "--like", paths["mirrored"], paths["one"]).wants(t, 2, `is not given mirrors`)
	run("layout", "set", "--remove", paths["one"]).wants(t, 2, `--remove is for directories`)
	run("layout", "set", "--stripe-count", "2", "--pool", "flesh", paths["one"]).wants(t, 2, `has no pool "flesh"`)
	run("layout", "set", "--stripe-count", "2").wants(t, 2, `want a directory, or a file$`)
	// Advice is for the size of each.
	must.Do(t, errors.Join(os.Truncate(paths["one"], 1<<20), os.Truncate(paths["two"], 100<<30)))
	run("layout", "set", "--advise", paths["one"], paths["two"]).wants(t, 0, `^all +1  .*/one$`, `^all +4 .*/two$`)
	f.ignores = true
	run(append(set, paths["one"])...).wants(t, 1, `it was taken and not done`)
}

// TestLayoutAdviseCommand: advice is for the OSTs that have room, and can be followed.
func TestLayoutAdviseCommand(t *testing.T) {
	root := t.TempDir()
	f := newFakeLustre(root)
	f.cluster.OSTs[3].FreeBytes = 1 << 40
	run := onLustre(f)
	s := run("layout", "advise", "--size", "100GiB", root)
	s.wants(t, 0, `^! targets +3 of 4 +no more than 90 % full`, `^stripe count +3 `, `^  datamove layout set --stripe-count 3 --stripe-size 4MiB /`, `^  lfs setstripe -c 3 -S 4M /`)
	run("layout", "set", "--advise", "--size", "100GiB", root).wants(t, 0, `^all +3  4.00 MiB`, `note: targets: 3 of 4`)

	f.cluster.MDTs = append(f.cluster.MDTs, f.cluster.MDTs[0])
	run("layout", "set", "--advise", "--use", "small", "--files", "1000000", root).wants(t, 0, `^up to 256 KiB +mdt`, `note: .*--mdt-count 2, with a new DIR`)
	run("layout", "set", "--advise", "--use", "small", "--files", "1000000", "--mdt-count", "2", filepath.Join(root, "images")).wants(t, 0, `entries on 2 MDTs by \w+`)

	// The command that is printed says what is advised.
	for _, use := range lustre.Uses {
		args := []string{"layout", "advise", "--use", string(use), "--writers", "200", "--pool", "flash", "-o", "json", root}
		var v adviceJSON
		must.Do(t, json.Unmarshal([]byte(run(args...).out), &v))
		words := strings.Fields(v.Commands[0])
		run(words[1:]...).wants(t, 0)
		if got := f.layouts[root]; lustre.Same(&v.Layout, &got, 0) != "" || len(v.Lfs) == 0 {
			t.Errorf("%s\nsets %+v\ninstead of %+v", v.Commands[0], got, v.Layout)
		}
	}

	run("__complete", "layout", "set", root, "--pool", "f").wants(t, 0, `^flash$`)
	run("__complete", "layout", "advise", "--use", "").wants(t, 0, `^checkpoint$`)

	// A file that is there tells its size.
	file := created(t, filepath.Join(root, "it's a file"))
	must.Do(t, os.Truncate(file, 40<<30))
	run("layout", "advise", "-o", "yaml", file).wants(t, 0, `^  bytes: 42949672960$`)
	run("layout", "advise", "--osts", "4", root).wants(t, 2, `two file systems`)
	run("layout", "advise", "--lustre", "two", "--osts", "4").wants(t, 2, `no version of Lustre`)
	run("layout", "advise", "--osts", "100000000").wants(t, 2, `no Lustre has more`)
	run("layout", "advise", "--use", "backup").wants(t, 2, `must be one of general, checkpoint`)
	f.lacks = true
	run("layout", "advise", root).wants(t, 1, `unsupported`, `try: --osts NUMBER`)
	run("layout", "show", root).wants(t, 1, `unsupported`)
}

// TestLayoutElsewhere: where there is no advice, and no other layout for a file that is
// there, it is said what there is instead.
func TestLayoutElsewhere(t *testing.T) {
	f := newFakeLustre(t.TempDir())
	run := onLustre(f)
	file := created(t, filepath.Join(f.root, "file"))
	copies := plainLayout(1, 1<<20, "")
	copies.Components = append(copies.Components, copies.Components[0])
	f.layouts[file] = copies
	for _, one := range []struct {
		kind                           lustre.Kind
		why, advised, instead, another string
	}{
		{lustre.IsCephFS, `cephfs.*each object of a file is on OSDs of its own`, `layout set --pool POOL DIR, .*--stripe-count and --stripe-size`, "a copy into a directory", `keeps the layout that it was made with`},
		{lustre.IsGPFS, `gpfs.*each file is on all disks of its pool`, `layout set --pool POOL FILE, .*mmlspolicy`, "mmchattr -P POOL /.*/file", `keeps the layout that it was made with`},
	} {
		t.Run(string(one.kind), func(t *testing.T) {
			f.as = func(s *lustre.System) { s.Kind, s.Layout = one.kind, struct{ lustre.Layouts }{f} }
			run("layout", "advise", f.root).wants(t, 1, `^datamove: layout: advise: advice for /.*`+one.why, `^try: .*`+one.advised)
			run("layout", "set", "--advise", f.root).wants(t, 1, one.why, `^try: .*`+one.advised)
			run("layout", "set", "--stripe-count", "2", file).wants(t, 5, one.another, `^try: `+one.instead)
		})
	}
}

func created(t *testing.T, name string) string {
	t.Helper()
	must.Do(t, os.WriteFile(name, nil, 0o666))
	return name
}
