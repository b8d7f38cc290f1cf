package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/casefold"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
	"datamove.dev/test/script"
)

// user is an account on a machine, with what its environment, its home and its target are like.
type user struct {
	t        *testing.T
	programs string            // the folder of the commands
	work     string            // the working folder
	env      map[string]string // the whole environment but for PATH and what tests of a race detector need
	id       uint32            // of user and group
	mask     int               // of new files; 0 is that of the test

	target string         // a location
	tier   string         // the tier "kept" of the service, in YAML, which holds the target's parent
	tree   string         // where the target's files can be read; "" is nowhere
	copied string         // what the first copy says
	equal  string         // what verify says
	codes  map[string]int // of words that do not end with 0
}

// environments are those that users have.
var environments = map[string]func(*user){
	"plain":   func(*user) {},
	"no HOME": func(u *user) { delete(u.env, "HOME") },
	"HOME is not there": func(u *user) {
		u.become(1234)
		u.env["HOME"] = "/nonexistent"
		u.homeless()
	},
	"HOME is not writable": func(u *user) {
		u.become(1234)
		u.env["HOME"] = u.folder("others", 0, 0o755)
		u.homeless()
	},
	"folders of XDG": func(u *user) {
		for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"} {
			u.env[name] = filepath.Join(u.work, strings.ToLower(name))
		}
	},
	"umask 077":                         func(u *user) { u.become(1234); u.mask = 0o077 },
	"not root":                          func(u *user) { u.become(1234) },
	"root, on a target of another user": func(u *user) { u.folder("target", 4321, 0o700) },
	"no user of that number":            func(u *user) { u.become(77777); delete(u.env, "USER") },
	"names compared without case":       func(u *user) { u.onto(casefold.Mount(u.t)) },
	"a coarse clock":                    func(u *user) { u.onto(loopfs.Mount(u.t, loopfs.Spec{Type: "ext4", Make: []string{"-q", "-I", "128"}})) },
	"a target that cp -a made": func(u *user) {
		must.Do(u.t, exec.Command("cp", "-a", filepath.Join(u.work, "data"), u.target).Run())
		u.copied = `^copied 0 files`
	},
	"a target that cp -r made": func(u *user) { must.Do(u.t, exec.Command("cp", "-r", filepath.Join(u.work, "data"), u.target).Run()) },
	"a mount below the target": func(u *user) {
		below := filepath.Join(u.folder("target", 0, 0o755), "mounted")
		must.Do(u.t, os.Mkdir(below, 0o755))
		must.Do(u.t, unix.Mount("none", below, "tmpfs", 0, "size=1m"))
		u.t.Cleanup(func() { must.Do(u.t, unix.Unmount(below, 0)) })
		must.Do(u.t, os.WriteFile(filepath.Join(below, "theirs"), []byte("theirs"), 0o600))
		u.codes["sync --delete -n"], u.codes["sync --delete"], u.codes["verify"], u.equal = 5, 5, 9, `mounted: another file system is mounted here`
	},
}

// homeless wants to be told what to set where nothing can be remembered, and sets it.
func (u *user) homeless() {
	u.codes["copy"] = 4
	u.does("copy", []string{"copy", "data", u.target}, `: make .*/\.local/state/datamove/spool, .*: permission denied$`, `^try: set XDG_STATE_HOME`)
	u.codes["copy"] = 0
	u.env["XDG_STATE_HOME"] = filepath.Join(u.work, "state-of-commands")
}

// onto has the target on a file system of its own.
func (u *user) onto(mount string) {
	u.target, u.tree = filepath.Join(mount, "target"), filepath.Join(mount, "target")
	u.tier = fmt.Sprintf("{level: warm, path: %q}", mount)
}

// become gives the user another number than root's, and the working folder.
func (u *user) become(id uint32) {
	u.id = id
	must.Do(u.t, exec.Command("chown", "-R", fmt.Sprint(id, ":", id), u.work).Run())
}

// folder makes a folder in the working one.
func (u *user) folder(name string, owner int, mode os.FileMode) string {
	path := filepath.Join(u.work, name)
	must.Do(u.t, os.Mkdir(path, mode))
	must.Do(u.t, os.Chown(path, owner, owner))
	return path
}

// inAmazon are the ways in which users have AWS.
var inAmazon = map[string]func(*user, *s3test.Amazon){
	"AWS, keys in the environment": func(u *user, a *s3test.Amazon) {
		u.env["AWS_ACCESS_KEY_ID"], u.env["AWS_SECRET_ACCESS_KEY"] = a.Access, a.Secret
	},
	"AWS, ~/.aws/credentials": func(u *user, a *s3test.Amazon) {
		u.aws("credentials", "[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", a.Access, a.Secret)
	},
	"AWS, a profile": func(u *user, a *s3test.Amazon) {
		u.env["AWS_PROFILE"] = "site"
		u.aws("credentials", "[site]\naws_access_key_id=%s\naws_secret_access_key=%s\n", a.Access, a.Secret)
		u.aws("config", "[profile site]\nregion=%s\n", s3test.Region)
	},
	"AWS, web identity": func(u *user, a *s3test.Amazon) {
		token := filepath.Join(u.work, "token")
		must.Do(u.t, os.WriteFile(token, []byte(s3test.WebToken), 0o600))
		u.env["AWS_ROLE_ARN"], u.env["AWS_WEB_IDENTITY_TOKEN_FILE"], u.env["AWS_REGION"] = s3test.Role, token, s3test.Region
	},
	"S3, an endpoint in ~/.aws/config": func(u *user, a *s3test.Amazon) {
		delete(u.env, "HTTPS_PROXY")
		u.aws("credentials", "[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", a.Access, a.Secret)
		u.aws("config", "[default]\nregion=%s\nservices=here\n[services here]\ns3=\n  endpoint_url=%s\n  addressing_style=path\n", s3test.Region, a.Endpoint)
	},
	"S3, an endpoint in the environment": func(u *user, a *s3test.Amazon) {
		u.at(a, a.Endpoint)
	},
	"S3, one call in five is refused with 503": func(u *user, a *s3test.Amazon) { u.at(a, s3test.Unwell(u.t, a.Server, s3test.OneIn(5, s3test.Busy))) },
	"S3, one call in twenty is reset":          func(u *user, a *s3test.Amazon) { u.at(a, s3test.Unwell(u.t, a.Server, s3test.OneIn(20, s3test.Reset))) },
}

// at has the user's environment name a store.
func (u *user) at(a *s3test.Amazon, endpoint string) {
	delete(u.env, "HTTPS_PROXY")
	u.env["AWS_ACCESS_KEY_ID"], u.env["AWS_SECRET_ACCESS_KEY"], u.env["AWS_ENDPOINT_URL_S3"] = a.Access, a.Secret, endpoint
}

// aws writes a file of ~/.aws.
func (u *user) aws(file, format string, args ...any) {
	dir := filepath.Join(u.env["HOME"], ".aws")
	must.Do(u.t, os.MkdirAll(dir, 0o700))
	must.Do(u.t, os.WriteFile(filepath.Join(dir, file), fmt.Appendf(nil, format, args...), 0o600))
}

// TestEnvironments: the words that every user needs do the same in every environment that users have.
func TestEnvironments(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user, and mount what some have")
	}
	programs := programsFor(t)
	for _, name := range slices.Sorted(maps.Keys(environments)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, programs)
			environments[name](u)
			u.words()
		})
	}
	amazon := s3test.StartAmazon(t)
	for _, name := range slices.Sorted(maps.Keys(inAmazon)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, programs)
			proxy := amazon.Proxy()
			t.Cleanup(proxy.Close)
			u.env["HTTPS_PROXY"], u.env["AWS_CA_BUNDLE"] = proxy.URL, amazon.CA
			prefix := filepath.Base(u.work)
			u.target, u.tree = "s3://"+amazon.Bucket+"/"+prefix+"/target", ""
			u.tier = fmt.Sprintf("{level: cold, s3: {bucket: %s, prefix: %s}}", amazon.Bucket, prefix)
			inAmazon[name](u, amazon)
			u.words()
		})
	}
}

// TestNameOfAnother: what another user has made first in a shared folder stays as it is, is named, and holds nothing else up.
func TestNameOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	u := newUser(t, programsFor(t))
	u.become(1234)
	shared := u.folder("target", 0, 0o700)
	must.Do(t, os.Chmod(shared, 0o777|os.ModeSticky))
	theirs := filepath.Join(shared, "a.txt")
	must.Do(t, os.WriteFile(theirs, []byte("theirs"), 0o644))
	must.Do(t, os.Chown(theirs, 4321, 4321))
	u.codes["copy"], u.codes["sync"] = 4, 4
	u.does("copy", []string{"copy", "data", u.target}, `target/a.txt: .*(permission denied|not permitted)`, `^copied 2 files`)
	must.Do(t, os.RemoveAll(filepath.Join(u.work, "data", "sub")))
	u.does("sync", []string{"sync", "--delete", "data", u.target}, `target/a.txt: .*(permission denied|not permitted)`)
	for name, want := range map[string]string{"a.txt": "theirs", "sub/b.txt": "beta"} {
		if b, err := os.ReadFile(filepath.Join(shared, name)); string(b) != want {
			t.Errorf("%s is %q, %v", name, b, err)
		}
	}

	// A folder of theirs is not entered, and nothing is left beside it.
	made := u.folder("made", 4321, 0o755)
	u.does("copy", []string{"copy", "data", made}, `made.*: .*permission denied`)
	if left := must.Get(os.ReadDir(made))(t); len(left) > 0 {
		t.Errorf("left in a folder of another user: %v", left)
	}
}

func newUser(t *testing.T, programs string) *user {
	t.Helper()
	work := open(t, "datamove-user-")
	t.Cleanup(func() { _ = exec.Command("chattr", "-R", "-f", "-i", work).Run() }) // what is staged is sealed
	u := &user{
		t: t, programs: programs, work: work, target: filepath.Join(work, "target"), tree: filepath.Join(work, "target"), tier: fmt.Sprintf("{level: warm, path: %q}", work),
		copied: `^copied 3 files`, equal: ` 0 differ`, codes: map[string]int{},
		env: map[string]string{"HOME": filepath.Join(work, "home"), "USER": "somebody", "NO_COLOR": "1", "AWS_EC2_METADATA_DISABLED": "true"},
	}
	must.Do(t, os.Mkdir(u.env["HOME"], 0o700))
	u.put("a.txt", "alpha")
	u.put("sub/b.txt", "beta")
	u.put("sub/deep/c.bin", strings.Repeat("0123456789abcdef", 5000))
	return u
}

// programsFor is a folder with the commands that all users can enter.
func programsFor(t *testing.T) string {
	t.Helper()
	dir := open(t, "datamove-programs-")
	for _, name := range []string{"datamove", "datamoved"} {
		must.Do(t, exec.Command("cp", "-L", must.Get(exec.LookPath(name))(t), filepath.Join(dir, name)).Run())
	}
	return dir
}

// open makes a folder that all users can enter.
func open(t *testing.T, name string) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", name))(t)
	t.Cleanup(func() { must.Tell(t, os.RemoveAll(dir)) })
	must.Do(t, os.Chmod(dir, 0o755))
	return dir
}

// put writes a file of the source, as it was an hour ago.
func (u *user) put(name, content string) {
	path := filepath.Join(u.work, "data", name)
	must.Do(u.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(u.t, os.WriteFile(path, []byte(content), 0o644))
	past := time.Now().Add(-time.Hour)
	must.Do(u.t, os.Chtimes(path, past, past))
	must.Do(u.t, os.Lchown(path, int(u.id), int(u.id)))
}

// command is a program that the user runs.
func (u *user) command(args ...string) *exec.Cmd {
	if args[0] == "datamove" || args[0] == "datamoved" {
		args = append([]string{filepath.Join(u.programs, args[0])}, args[1:]...)
	}
	c := exec.Command(args[0], args[1:]...)
	if u.mask != 0 {
		c = exec.Command("sh", append([]string{"-c", fmt.Sprintf(`umask %o; exec "$@"`, u.mask), "sh"}, args...)...)
	}
	c.Dir = u.work
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=" + os.Getenv("GORACE"), script.GC}
	for name, value := range u.env {
		c.Env = append(c.Env, name+"="+value)
	}
	if u.id != 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.id, Gid: u.id}}
	}
	return c
}

// does runs datamove with words, and wants lines in what it says. key names the words in codes.
func (u *user) does(key string, words []string, lines ...string) said {
	u.t.Helper()
	s := ended(u.command(append([]string{"datamove"}, words...)...))
	if s.code != u.codes[key] {
		u.t.Fatalf("datamove %s: exit %d, want %d\n%s%s", strings.Join(words, " "), s.code, u.codes[key], s.out, s.err)
	}
	s.wants(u.t, s.code, lines...)
	return s
}

// words are what a user does with a tree.
func (u *user) words() {
	t := u.t
	t.Helper()
	u.does("copy", []string{"copy", "data", u.target}, u.copied)
	u.holds("a.txt", "sub/b.txt", "sub/deep/c.bin")
	u.does("copy", []string{"copy", "data", u.target}, `^copied 0 files`)
	u.does("verify", []string{"verify", "data", u.target}, u.equal)

	u.put("a.txt", "changed")
	u.put("new.txt", "new")
	must.Do(t, os.Remove(filepath.Join(u.work, "data", "sub", "b.txt")))
	u.does("sync", []string{"sync", "data", u.target}, `^synchronised 2 files`)
	u.holds("a.txt", "new.txt", "sub/b.txt", "sub/deep/c.bin")
	u.does("sync --delete -n", []string{"sync", "--delete", "-n", "data", u.target}, `sub/b.txt`)
	u.does("sync --delete", []string{"sync", "--delete", "data", u.target})
	u.holds("a.txt", "new.txt", "sub/deep/c.bin")
	u.does("verify", []string{"verify", "data", u.target}, u.equal)
	u.does("copy", []string{"copy", u.target + "/sub", "back"}, `^copied 1 file`)
	if b := must.Get(os.ReadFile(filepath.Join(u.work, "back", "deep", "c.bin")))(t); len(b) != 80_000 {
		t.Errorf("%d bytes came back", len(b))
	}
	u.does("du", []string{"du", u.target + "/sub"}, ` 78.1 KiB  1 file`)
	u.does("rm", []string{"rm", "-r", "-y", u.target + "/sub"})
	u.holds("a.txt", "new.txt")
	u.service()
	u.does("rm", []string{"rm", "-y", u.target + "/a.txt"})
	u.holds("new.txt")
}

// holds wants just these files of ours at the target, by ls and by a look.
func (u *user) holds(files ...string) {
	t := u.t
	t.Helper()
	s := u.does("ls", []string{"ls", "-r", "-o", "name", u.target})
	var got []string
	for line := range strings.Lines(s.out) {
		if name := strings.TrimSpace(line); strings.Contains(filepath.Base(name), ".") {
			got = append(got, name)
		}
	}
	if slices.Sort(got); !slices.Equal(got, files) {
		t.Fatalf("ls says %q, want %q", got, files)
	}
	for _, file := range files {
		if u.tree == "" || file == "sub/b.txt" {
			continue
		}
		want := must.Get(os.ReadFile(filepath.Join(u.work, "data", file)))(t)
		if b, err := os.ReadFile(filepath.Join(u.tree, file)); string(b) != string(want) {
			t.Fatalf("%s is %d bytes of something else, %v", file, len(b), err)
		}
	}
}

// service has the user run a service of his own, stage a dataset out of the target, and purge that.
func (u *user) service() {
	t := u.t
	t.Helper()
	conf, socket := filepath.Join(u.work, "service.yaml"), "unix://"+filepath.Join(u.work, "s")
	scratch := filepath.Join(u.work, "scratch")
	text := fmt.Sprintf("tiers:\n  scratch: {level: hot, path: %q, ephemeral: true}\n  kept: %s\n", scratch, u.tier)
	must.Do(t, os.WriteFile(conf, []byte(text), 0o644))
	must.Do(t, os.Mkdir(scratch, 0o755))
	must.Do(t, os.Chown(scratch, int(u.id), int(u.id)))
	d := u.command("datamoved", "--config", conf, "--data", filepath.Join(u.work, "state"), "--listen", socket, "--node", "n1")
	log := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	d.Stdout, d.Stderr = log, log
	must.Do(t, d.Start())
	defer func() {
		_ = d.Process.Signal(unix.SIGTERM)
		_ = d.Wait() // the code tells
		text, _ := os.ReadFile(log.Name())
		if code := d.ProcessState.ExitCode(); code != 0 || t.Failed() {
			t.Errorf("datamoved ended with %d\n%s", code, text)
		}
	}()
	if !patience.While(patience.New(nil), func() bool { return isReady(socket) }) {
		t.Fatal("no agent is ready")
	}
	at := func(words ...string) []string { return append([]string{"--service", socket}, words...) }
	u.does("dataset add", at("dataset", "add", "toys", "kept:target"))
	u.does("stage", at("stage", "dataset:toys", "--to", "scratch"))
	var staged []string
	must.Do(t, filepath.WalkDir(scratch, func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".txt" {
			staged = append(staged, filepath.Base(path))
		}
		return err
	}))
	if !slices.Equal(staged, []string{"a.txt", "new.txt"}) {
		t.Errorf("staged: %q", staged)
	}
	u.does("purge", at("purge", "--yes", "--root", "scratch:"))
	must.Do(t, filepath.WalkDir(scratch, func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".txt" && !strings.Contains(path, ".datamove-") {
			t.Errorf("%s was not purged", path)
		}
		return err
	}))
}

// isReady says whether a service has an agent that is ready.
func isReady(socket string) bool {
	c, err := api.Dial(context.Background(), socket, api.Options{})
	if err != nil {
		return false
	}
	defer c.Close()
	list, err := c.ListAgents(context.Background(), &pb.ListAgentsRequest{})
	return err == nil && slices.ContainsFunc(list.GetAgents(), func(a *pb.Agent) bool { return a.GetState() == pb.AgentState_AGENT_STATE_READY })
}
