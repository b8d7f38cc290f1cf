package gpfs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/test/must"
)

// TestMain is also every mm command: a directory of links to the test's own binary stands
// for /usr/lpp/mmfs/bin.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); strings.HasPrefix(name, "mm") {
		// Not os.Exit, in which the race detector waits for a second.
		syscall.Exit(playCommand(name, filepath.Dir(os.Args[0]), os.Args[1:], os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// commandNames are those that are used.
var commandNames = []string{
	"mmlsfs", "mmlsfileset", "mmlsquota", "mmsetquota", "mmlspool", "mmdf", "mmlsattr", "mmchattr",
	"mmcrfileset", "mmlinkfileset", "mmunlinkfileset", "mmdelfileset", "mmapplypolicy",
}

// script is what a command shall do, in a file beside it; without one it plays in the world.
type played struct {
	Out, Err string
	Exit     int
	Hang     bool // waits, with a child that holds its output, until both are killed
	Flood    bool // prints without end
}

// commands returns Commands of which nothing is known yet: see play.
func commands(t *testing.T) *Commands {
	t.Helper()
	dir := t.TempDir()
	self := must.Get(os.Executable())(t)
	for _, name := range commandNames {
		must.Do(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	c := must.Get(NewCommands(Options{CommandsDir: dir}))(t)
	return c
}

// here plays commands without a process for each, for tests of what they print.
func (c *Commands) here() *Commands {
	c.start = func(_ context.Context, path string, arguments []string) ended {
		e := ended{output: &limited{most: maxOutput}, said: &limited{most: maxSaid, forget: true}}
		e.exit = playCommand(filepath.Base(path), filepath.Dir(path), arguments, e.output, e.said)
		return e
	}
	return c
}

// play says what a command prints and how it ends.
func (c *Commands) play(t *testing.T, name string, p played) {
	t.Helper()
	text, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(filepath.Join(c.dir, name+".play"), text, 0o600)
	}
	must.Do(t, err)
}

// called returns the arguments of all calls of a command, each call in one line.
func (c *Commands) called(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name+".called"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(string(text)) {
		calls = append(calls, strings.TrimSuffix(line, "\n"))
	}
	return calls
}

func playCommand(name, dir string, arguments []string, out, said io.Writer) int {
	if len(arguments) == 1 && arguments[0] == "hang" {
		time.Sleep(time.Hour) // the child of a command that hangs; "select {}" would be a deadlock without cgo
	}
	line, _ := json.Marshal(arguments)
	log, err := os.OpenFile(filepath.Join(dir, name+".called"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = log.Write(append(line, '\n'))
		log.Close()
	}
	if err != nil {
		fmt.Fprint(said, err)
		return 99
	}
	text, err := os.ReadFile(filepath.Join(dir, name+".play"))
	if os.IsNotExist(err) {
		return playWorld(name, dir, arguments, out, said)
	}
	var p played
	if err := json.Unmarshal(text, &p); err != nil {
		fmt.Fprint(said, err)
		return 99
	}
	fmt.Fprint(out, p.Out)
	fmt.Fprint(said, p.Err)
	for p.Flood {
		if _, err := io.WriteString(out, strings.Repeat("x", 1<<20)); err != nil {
			return 1
		}
	}
	if p.Hang {
		hangWithChild(dir)
	}
	return p.Exit
}

func fixture(t testing.TB, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", path)))(t)
	return string(text)
}
