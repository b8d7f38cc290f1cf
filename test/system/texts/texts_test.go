// Package texts runs the documents of the tree: the blocks of commands of each are one session of a shell, with the real commands, a store and file systems in a folder.
// What a block shows has to be what its commands print, and its exit codes those that they end with. Package test/document says how a block is marked that can not run here.
package texts

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"datamove.dev/cmd/datamove-bench/harness"
	datamove "datamove.dev/cmd/datamove/root"
	"datamove.dev/cmd/datamoved/daemon"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/document"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

const root = "../../.."

var update = flag.Bool("update", false, "write what commands print into the documents, where it is another thing than they show")

// commands are those that documents call.
var commands = rig.Commands{"datamove": datamove.Main, "datamoved": daemon.Main, "datamove-bench": harness.Main}

func TestMain(m *testing.M) { rig.Main(m, commands) }

// folders are those that documents name, and that lie below the folder of a session.
var folders = []string{"/etc/datamove", "/home/ada", "/local_nvme", "/lustre", "/run/datamove", "/var/lib/datamove"}

// bucket is what documents call theirs.
const bucket = "s3://archive"

// TestDocuments runs each document that has a block which can run. DATAMOVE_E2E_S3 changes nothing: what documents show is of the embedded store.
func TestDocuments(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("documents show what root sees")
	}
	t.Setenv("DATAMOVE_E2E_S3", "")
	store := s3test.Start(t, false)
	files, err := document.Written(root)
	must.Do(t, err)
	sessions := 0
	for _, file := range files {
		blocks, err := document.Read(root, file)
		must.Do(t, err)
		var run []document.Block
		commands := 0
		for _, b := range blocks {
			if b.NotRun != "" {
				continue
			}
			if n := len(b.Commands()); n > 0 || b.Path != "" {
				run = append(run, b)
				commands += n
			}
		}
		if commands == 0 {
			continue
		}
		sessions++
		t.Run(file, func(t *testing.T) {
			t.Parallel() // most of a session is to wait
			newSession(t, store, strings.TrimSuffix(filepath.Base(file), ".md")).run(t, run)
		})
	}
	if sessions < 9 {
		t.Errorf("only %d documents have blocks that run", sessions)
	}
}

// session is the shell of a document.
type session struct {
	dir   string
	there *strings.Replacer // what a document says, as it is here
	env   []string
}

func newSession(t *testing.T, store *s3test.Server, name string) *session {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "doc"))(t) // short: a socket is below it
	t.Cleanup(func() {
		_ = exec.Command("chattr", "-R", "-f", "-i", dir).Run() // what is staged is sealed
		must.Do(t, os.RemoveAll(dir))
	})
	var pairs []string
	for _, folder := range folders {
		must.Do(t, os.MkdirAll(dir+folder, 0o755))
		pairs = append(pairs, folder, dir+folder)
	}
	pairs = append(pairs, bucket, "s3://"+store.Bucket+"/"+name)
	bin := filepath.Dir(must.Get(rig.Executable("datamove"))(t))
	for name := range commands {
		must.Get(rig.Executable(name))(t)
	}
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir + "/home/ada", "USER=ada", "LANG=C.UTF-8", "NO_COLOR=1", "DEPLOY=" + must.Get(filepath.Abs(root+"/deploy"))(t),
		"AWS_ENDPOINT_URL_S3=" + store.Endpoint, "AWS_ACCESS_KEY_ID=" + store.Access, "AWS_SECRET_ACCESS_KEY=" + store.Secret, "AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true"}
	for name, value := range s3test.NoAuthorities {
		env = append(env, name+"="+value)
	}
	return &session{dir: dir, there: strings.NewReplacer(pairs...), env: env}
}

// here is what was printed, as a document says it.
func (s *session) here(text string) string {
	into, from := s.there.Replace(bucket), bucket
	return strings.ReplaceAll(strings.ReplaceAll(text, s.dir, ""), into, from)
}

// mark stands between the outputs of two commands, with the number and the exit code of the first.
var mark = regexp.MustCompile("(?m)^\x01(\\d+) (\\d+)\n")

// passing is what a command prints of a task when it happens to see it between two others: documents need not show it.
var passing = regexp.MustCompile(`^datamove: [a-z ]+: (what is there now is read,|what is to be removed is read,|the copy that stays is )`)

// run has a shell do what all blocks say, and compares.
func (s *session) run(t *testing.T, blocks []document.Block) {
	t.Helper()
	var b strings.Builder
	type step struct {
		document.Command
		at document.Block
	}
	var steps []step
	fmt.Fprintf(&b, "cd %s/home/ada\n", s.dir)
	for _, block := range blocks {
		if block.Path != "" {
			fmt.Fprintf(&b, "cat >%s <<'END OF THE FILE'\n%sEND OF THE FILE\n", s.there.Replace(block.Path), s.there.Replace(block.Text))
		}
		for _, c := range block.Commands() {
			fmt.Fprintf(&b, "%sprintf '\\001%d %%d\\n' $?\n", s.there.Replace(c.Text), len(steps))
			steps = append(steps, step{c, block})
		}
	}
	out := s.shell(t, b.String())
	place := func(st step) string { return fmt.Sprintf("%s:%d: %s", st.at.File, st.Line, strings.TrimSpace(st.Text)) }
	found := mark.FindAllStringSubmatchIndex(out, -1)
	begin := 0
	var changes []change
	defer func() {
		if len(changes) > 0 {
			must.Do(t, write(filepath.Join(root, blocks[0].File), changes))
		}
	}()
	for i, st := range steps {
		if i >= len(found) {
			t.Fatalf("%s: the session ended here:\n%s", place(st), s.here(out[begin:]))
		}
		m := found[i]
		if out[m[2]:m[3]] != strconv.Itoa(i) {
			t.Fatalf("%s: the outputs of commands are mixed:\n%s", place(st), out)
		}
		said, code := s.here(out[begin:m[0]]), out[m[4]:m[5]]
		begin = m[1]
		if code != strconv.Itoa(st.Code) {
			t.Errorf("%s: ended with %s and not with %d:\n%s", place(st), code, st.Code, said)
			return // what follows rests on it
		}
		if st.Said == nil {
			continue
		}
		var printed []string
		if text := strings.TrimRight(said, "\n"); text != "" {
			printed = strings.Split(text, "\n")
		}
		if !slices.ContainsFunc(st.Said, passing.MatchString) {
			printed = slices.DeleteFunc(printed, passing.MatchString)
		}
		if err := document.Match(st.Said, printed); *update && (err != nil || slices.Equal(st.Said, []string{document.Rest})) {
			changes = append(changes, change{st.Command, printed})
		} else if err != nil {
			t.Errorf("%s: %v\nit prints:\n%s", place(st), err, said)
		}
	}
}

// change is what a command prints, in place of what its document shows.
type change struct {
	document.Command
	printed []string
}

// write changes a document, from its end on, so that lines before stay where they are.
func write(file string, changes []change) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for _, c := range slices.Backward(changes) {
		begin := c.Line - 1 + strings.Count(c.Text, "\n")
		lines = slices.Replace(lines, begin, begin+len(c.Said), c.printed...)
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644)
}

// shell runs a script to its end, with all that it has begun in the background.
func (s *session) shell(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(s.dir, "script")
	log := filepath.Join(s.dir, "log")
	must.Do(t, os.WriteFile(file, []byte(script), 0o600))
	out := must.Get(os.Create(log))(t)
	cmd := exec.Command("/bin/sh", file)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the marks tell how far it came
		close(ended)
	}()
	read := func() string { return string(bytes.ToValidUTF8(must.Get(os.ReadFile(log))(t), []byte("?"))) }
	progress := func() string { return strconv.Itoa(len(read())) }
	if !patience.While(patience.New(progress), func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}) {
		t.Errorf("the session goes on, and nothing moves:\n%s", s.here(read()))
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // services in the background, which end by themselves
	group := func() bool { return syscall.Kill(-cmd.Process.Pid, 0) != nil }
	if !patience.While(patience.New(nil), group) {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	<-ended
	must.Do(t, out.Close())
	return read()
}

// TestSession: a session is red where a document is wrong, and only there.
func TestSession(t *testing.T) {
	if os.Getenv("DATAMOVE_DOCUMENT") != "" { // of the test below
		t.Setenv("DATAMOVE_E2E_S3", "")
		blocks, err := document.Blocks("x.md", os.Getenv("DATAMOVE_DOCUMENT"))
		must.Do(t, err)
		newSession(t, s3test.Start(t, false), "x").run(t, blocks)
		return
	}
	for _, row := range []struct{ text, err string }{
		{"```console\n$ mkdir data; echo a >data/a\n$ datamove copy -q data target\n$ cat target/a\na\n```\n", ""},
		{"```console\n$ datamove copy -q none target\n...\n(exit 3)\n```\n", ""},
		{"```console\n$ datamove copy -q none target\n...\n```\n", "ended with 3 and not with 0"},
		{"```console\n$ echo a\nb\n```\n", `"b" is shown, and "a" is printed`},
		{"```console\n$ echo /lustre/project\n/lustre/project\n$ exit 0\n$ echo\n```\n", "the session ended here"},
		{"```sh\ndatamove copy\n```\n", "ended with 2"},
		{"```console\n$ cat /etc/datamove/x\na: b\n```\n", "No such file"},
		{"```yaml file=/etc/datamove/x\na: b\n```\n\n```console\n$ cat /etc/datamove/x\na: b\n```\n", ""},
	} {
		cmd := exec.Command(must.Get(os.Executable())(t), "-test.run=^TestSession$")
		cmd.Env = append(os.Environ(), "DATAMOVE_DOCUMENT="+row.text)
		out, err := cmd.CombinedOutput()
		if (err != nil) != (row.err != "") || !strings.Contains(string(out), row.err) {
			t.Errorf("%s\nis %v, want %q:\n%s", row.text, err, row.err, out)
		}
	}
}
