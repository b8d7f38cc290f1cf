package gpfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// TestCommands: what the commands print, and how they are called.
func TestCommands(t *testing.T) {
	c := commands(t)
	for _, name := range []string{"mmlsfs", "mmlsfileset", "mmlsquota", "mmlspool", "mmdf"} {
		c.play(t, name, played{Out: fixture(t, "commands/"+name+".txt"), Err: "mmcommon: a note\n"})
	}
	const odd = "/gpfs/fs1/-x; rm -rf $HOME"
	c.play(t, "mmlsattr", played{Out: strings.Replace(fixture(t, "commands/mmlsattr.txt"), "/gpfs/fs1/vision/part-0007", odd, 1)})
	for _, q := range []struct {
		ask    func() (any, error)
		want   any
		called string
	}{
		{func() (any, error) { return c.FileSystem(t.Context(), "fs1") },
			FileSystem{Mount: "/gpfs/fs1", FilesetQuotas: true}, `mmlsfs ["fs1","-Y"]`},
		{func() (any, error) { return c.Filesets(t.Context(), "fs1") },
			[]Fileset{{Name: "root", Junction: "/gpfs/fs1", RootInode: 3, Independent: true}, {Name: "vision", ID: 1, Junction: "/gpfs/fs1/vision", RootInode: 524291, InodeSpace: 1, Independent: true}, {Name: "small_one", ID: 10, Junction: "/gpfs/fs1/small_one", RootInode: 65828}, {Name: "old-runs", ID: 7, InodeSpace: 2, Independent: true}},
			`mmlsfileset ["fs1","-Y"]`},
		{func() (any, error) { return c.Fileset(t.Context(), "fs1", "old-runs") }, Fileset{Name: "old-runs", ID: 7, InodeSpace: 2, Independent: true}, `mmlsfileset ["fs1","-Y"]`},
		{func() (any, error) {
			found, q, err := c.FilesetQuota(t.Context(), "fs1", "vision")
			if !found || q.BytesUntil.Before(time.Now().Add(5*24*time.Hour)) {
				t.Errorf("%v, %v", found, q.BytesUntil)
			}
			q.BytesUntil = time.Time{}
			return q, err
		}, visionQuota, `mmlsquota ["-j","vision","fs1","-Y"]`},
		{func() (any, error) { return c.Pools(t.Context(), "fs1") },
			[]Pool{{"system", 0, 0}, {"data", 3064453922 << 10, 529111449 << 10}}, `mmlspool ["fs1"]`},
		{func() (any, error) { return c.Attributes(t.Context(), odd) },
			Attributes{Pool: "data", Fileset: "vision", Copies: 2, Flags: []string{"illreplicated"}, Offline: true},
			`mmlsattr ["-L","-l","/gpfs/fs1/-x; rm -rf $HOME"]`},
	} {
		got, err := q.ask()
		if err != nil || !reflect.DeepEqual(got, q.want) {
			t.Errorf("%s: %+v, %v, and not %+v", q.called, got, err, q.want)
		}
		name, arguments, _ := strings.Cut(q.called, " ")
		if calls := c.called(t, name); len(calls) == 0 || calls[len(calls)-1] != arguments {
			t.Errorf("%s was called %q", name, calls)
		}
	}
	if _, err := c.Fileset(t.Context(), "fs1", "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a fileset that is not there: %v", err)
	}
	c.play(t, "mmlspool", played{Out: "Name: something new\n"})
	if got, err := c.Pools(t.Context(), "fs1"); err != nil || !reflect.DeepEqual(got, []Pool{{"data", 3064453922 << 10, 529111449 << 10}}) {
		t.Errorf("pools by mmdf: %+v, %v", got, err)
	}
}

// TestCommandColumns: a column that is not there, or there twice, is missed by its name where it is
// needed; others may come, go and move.
func TestCommandColumns(t *testing.T) {
	for _, q := range []struct {
		command string
		ask     func(context.Context, *Commands) error
		needed  string
	}{
		{"mmlsfileset", func(ctx context.Context, c *Commands) error { return second(c.Filesets(ctx, "fs1")) }, "filesetName path id inodeSpace isInodeSpaceOwner status rootInode"},
		{"mmlsquota", func(ctx context.Context, c *Commands) error {
			found, _, err := c.FilesetQuota(ctx, "fs1", "vision")
			if err == nil && !found {
				err = errors.New("not found")
			}
			return err
		}, "filesystemName quotaType name id blockUsage blockInDoubt blockQuota blockLimit blockGrace filesUsage filesInDoubt filesQuota filesLimit filesGrace"},
		{"mmlsfs", func(ctx context.Context, c *Commands) error { return second(c.FileSystem(ctx, "fs1")) }, "deviceName fieldName data"},
	} {
		c := commands(t).here()
		text := fixture(t, "commands/"+q.command+".txt")
		header, _, _ := strings.Cut(text, "\n")
		needed := strings.Fields(q.needed)
		for i, column := range strings.Split(header, ":") {
			if i < tablePrefix || column == "" {
				continue
			}
			is := strings.Contains(" "+q.needed+" ", " "+column+" ")
			for how, changed := range map[string]string{
				"is called otherwise": strings.ReplaceAll(text, header, strings.Replace(header, ":"+column+":", ":other:", 1)),
				"is there twice":      strings.ReplaceAll(text, header, header+column+":"),
				"ends the line":       strings.ReplaceAll(text, header, strings.TrimSuffix(header, ":")),
			} {
				c.play(t, q.command, played{Out: changed})
				err := q.ask(t.Context(), c)
				wrong := is && how != "ends the line"
				if wrong && (!errors.Is(err, ErrReply) || !strings.Contains(err.Error(), column)) || !wrong && err != nil {
					t.Errorf("%s: column %s %s: %v", q.command, column, how, err)
				}
			}
		}
		if len(needed) == 0 {
			t.Fatal("nothing is needed")
		}
	}
}

// TestCommandOutput: output that can not be right.
func TestCommandOutput(t *testing.T) {
	c := commands(t).here()
	good := fixture(t, "commands/mmlsquota.txt")
	for name, out := range map[string]string{
		"nothing":                "",
		"words":                  "mmlsquota: 6027-1290 no quota\n",
		"a line without header":  "mmlsquota:fileset:0:1:::fs1:FILESET:1:vision:\n",
		"too many values":        strings.TrimSuffix(good, "\n") + "1:2:3:\n",
		"too few values":         strings.Replace(good, "345088:262144:524288:4096:6 days:1250:8000:10000:20:none::::", "345088:", 1),
		"a negative limit":       strings.Replace(good, ":524288:", ":-524288:", 1),
		"a limit that is a word": strings.Replace(good, ":524288:", ":unlimited:", 1),
		"a limit beyond all":     strings.Replace(good, ":524288:", ":99999999999999999:", 1),
		"a number beyond 2^63":   strings.Replace(good, ":524288:", ":99999999999999999999:", 1),
		"a bad escape":           strings.Replace(good, "6 days", "6%2", 1),
		"a NUL":                  strings.Replace(good, "6 days", "6%00days", 1),
		"two headers":            good + "mmlsquota:fileset:HEADER:version:reserved:reserved:name:\n",
		"another section":        strings.ReplaceAll(good, ":fileset:", ":user:"),
		"of another command":     strings.ReplaceAll(good, "mmlsquota:", "mmlsfileset:"),
		"a wide header":          "mmlsquota:fileset:HEADER:version:reserved:reserved:" + strings.Repeat("a:", 5000) + "\n",
	} {
		c.play(t, "mmlsquota", played{Out: out})
		if _, _, err := c.FilesetQuota(t.Context(), "fs1", "vision"); !errors.Is(err, ErrReply) {
			t.Errorf("%s: %v", name, err)
		}
	}
	const file = "/gpfs/fs1/vision/part-0007"
	attributes := fixture(t, "commands/mmlsattr.txt")
	for name, out := range map[string]string{
		"nothing":             "",
		"another file":        strings.Replace(attributes, "part-0007", "part-0008", 1),
		"several files":       attributes + "\n" + strings.Replace(attributes, "data", "system", 1),
		"words":               "mmlsattr: no",
		"a name without line": "file name:",
		"no pool":             strings.Replace(attributes, "storage pool name:    data", "storage pool name:", 1),
		"no replication":      strings.Replace(attributes, "data replication:     2 max 2", "", 1),
		"odd copies":          strings.Replace(attributes, "data replication:     2 max 2", "data replication:     9 max 2", 1),
	} {
		c.play(t, "mmlsattr", played{Out: out})
		if a, err := c.Attributes(t.Context(), file); !errors.Is(err, ErrReply) {
			t.Errorf("attributes, %s: %+v, %v", name, a, err)
		}
	}
	for _, pattern := range []string{"/gpfs/fs1/*", "/gpfs/fs1/a?", "/gpfs/fs1/[a]"} {
		if err := c.place(t.Context(), pattern, "data", 2); !errors.Is(err, errors.ErrUnsupported) || len(c.called(t, "mmchattr")) > 0 {
			t.Errorf("%s is placed: %v", pattern, err)
		}
	}
}

// TestCommandFails: what a command says in the end becomes a kind, and is quoted and cut.
func TestCommandFails(t *testing.T) {
	c := commands(t)
	for said, want := range map[string]error{
		"mmlsfs: File system fs1 is not known to the GPFS cluster.\nmmlsfs: Command failed. Examine previous error messages to determine cause.\n": fs.ErrNotExist,
		"Fileset named fset does not exist.\nmmlsfileset: Command failed. Examine previous error messages to determine cause.\n":                   fs.ErrNotExist,
		"You must have root authority to run this command": fs.ErrPermission,
		"fileset x already exists":                         fs.ErrExist,
		"the daemon is down \x1b[31m":                      ErrRefused,
		strings.Repeat("x", 1<<20):                         ErrRefused,
	} {
		c.play(t, "mmlsfs", played{Err: said, Exit: 3, Out: fixture(t, "commands/mmlsfs.txt")})
		_, err := c.FileSystem(t.Context(), "fs1")
		var e *Error
		if !errors.Is(err, want) || !errors.As(err, &e) || e.Status != 3 || len(err.Error()) > 1000 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%.40q: %v", said, err)
		}
	}
	must.Do(t, os.Remove(filepath.Join(c.dir, "mmlsfs")))
	if _, err := c.FileSystem(t.Context(), "fs1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a command that is not there: %v", err)
	}
	if _, err := NewCommands(Options{CommandsDir: c.dir}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("commands that are not there: %v", err)
	}
}

// TestCommandHangs: a command that does not end is killed, with what it has started.
func TestCommandHangs(t *testing.T) {
	c := commands(t)
	c.play(t, "mmlsfileset", played{Hang: true})
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- second(c.Filesets(ctx, "fs1")) }()
	child := 0
	for child == 0 {
		text, _ := os.ReadFile(filepath.Join(c.dir, "child"))
		child, _ = strconv.Atoi(string(text))
		time.Sleep(10 * time.Millisecond)
	}
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("it is %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); unix.Kill(child, 0) == nil && !zombie(child); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is left", child)
		}
	}
	c.timeout = 50 * time.Millisecond
	if err := second(c.Filesets(t.Context(), "fs1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its time: %v", err)
	}
}

// TestCommandLivesOn: who asked is answered, even when a killed command does not end because
// the kernel, or somebody with more rights, holds it.
func TestCommandLivesOn(t *testing.T) {
	c := commands(t)
	release, left := make(chan struct{}), make(chan struct{})
	c.start = func(context.Context, string, []string) ended {
		defer close(left)
		<-release
		return ended{output: &limited{}, said: &limited{}}
	}
	c.timeout, c.dying = 20*time.Millisecond, 20*time.Millisecond
	if err := second(c.Filesets(t.Context(), "fs1")); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("it is %v", err)
	}
	close(release)
	<-left
}

// zombie reports whether a process is dead and only not collected by init.
func zombie(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(text), ") Z ")
}

// TestCommandFloods: output without end is not kept.
func TestCommandFloods(t *testing.T) {
	c := commands(t)
	c.play(t, "mmlsfs", played{Flood: true})
	if err := second(c.FileSystem(t.Context(), "fs1")); !errors.Is(err, ErrReply) {
		t.Errorf("it is %v", err)
	}
}

// TestCommandsOfOthers: a directory that others can write to is not run from.
func TestCommandsOfOthers(t *testing.T) {
	c := commands(t)
	must.Do(t, os.Chmod(c.dir, 0o777))
	if _, err := NewCommands(Options{CommandsDir: c.dir}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("it is %v", err)
	}
	if _, err := NewCommands(Options{CommandsDir: "mm"}); !errors.Is(err, ErrName) {
		t.Errorf("a relative directory: %v", err)
	}
}

func TestGrace(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		held
		want time.Time
	}{
		{held{grace: "none"}, time.Time{}},
		{held{grace: ""}, time.Time{}},
		{held{grace: "7 days"}, now.Add(7 * 24 * time.Hour)},
		{held{grace: "1 hour"}, now.Add(time.Hour)},
		{held{grace: "30 Minutes"}, now.Add(30 * time.Minute)},
		{held{grace: "expired"}, now},
		{held{grace: "soon", usage: 2, soft: 1}, now},
		{held{grace: "soon", usage: 1, soft: 1}, time.Time{}},
		{held{grace: "99999999999 days", usage: 2, soft: 1}, now},
	} {
		if got := c.until(now); !got.Equal(c.want) {
			t.Errorf("%+v: %v, and not %v", c.held, got, c.want)
		}
	}
}
