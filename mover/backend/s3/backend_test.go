package s3_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

//safety:1 with test/cluster TestOverlappingTargets
func TestLock(t *testing.T) {
	server := s3test.Start(t, false)
	place := func(t *testing.T) (*s3.Backend, s3.Options) {
		o := server.Options(t)
		p := s3test.Open(t, o)
		if f := p.Profile(); !f.CreatesOnce || !f.MatchesPut {
			t.Skip("this server has no conditional writes: the lock is of this host")
		}
		return p, o
	}
	t.Run("of a dead process is taken over", func(t *testing.T) { p, _ := place(t); s3.LockOfTheDead(t, p) })
	t.Run("that is silent is taken over", func(t *testing.T) {
		if server.Dir == "" {
			t.Skip("the server's files are not ours")
		}
		p, o := place(t)
		s3.LockOfTheSilent(t, p, filepath.Join(server.Dir, o.Prefix, ".datamove", "lock"))
	})
	t.Run("of who is fenced off is broken", func(t *testing.T) { p, _ := place(t); s3.LockOfTheFenced(t, p) })
	t.Run("of who is fenced off on this host is broken", func(t *testing.T) {
		p := s3test.Open(t, server.Options(t))
		s3.Distrust(p)
		s3.LockOfTheFenced(t, p)
	})
	t.Run("that was lost is told", func(t *testing.T) { p, _ := place(t); s3.LockLost(t, p) })
	t.Run("whose answer is lost is held by no other", func(t *testing.T) { lockUnanswered(t) })
	t.Run("without conditional writes is of this host", func(t *testing.T) {
		var log bytes.Buffer
		o := server.Options(t)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		p, q := s3test.Open(t, o), s3test.Open(t, o)
		s3.Distrust(p)
		s3.Distrust(q)
		_, unlock, err := p.Lock(t.Context(), "", mover.WriterID{Task: "first"})
		must.Do(t, err)
		if _, _, err := q.Lock(t.Context(), "", mover.WriterID{Task: "second"}); !errors.Is(err, mover.ErrHeld) || !strings.Contains(err.Error(), "task first") {
			t.Errorf("second lock: %v", err)
		}
		must.Tell(t, unlock())
		if !strings.Contains(log.String(), "on this host only") {
			t.Errorf("nobody was told:\n%s", log.String())
		}
	})
}

// TestUnlockBusyStore: a lock is given up also where the store refuses that for the moment.
func TestUnlockBusyStore(t *testing.T) {
	server := s3test.Start(t, false)
	o := server.Options(t)
	var refused int
	o.Endpoint = s3test.Unwell(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		fails := r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/lock") && refused < 2
		if fails {
			refused++
			s3test.Busy(w, r)
		}
		return fails
	})
	p := s3test.Open(t, o)
	_, unlock, err := p.Lock(t.Context(), "", mover.WriterID{Task: "first"})
	must.Do(t, err)
	must.Do(t, unlock())
	_, again, err := p.Lock(t.Context(), "", mover.WriterID{Task: "second"})
	must.Do(t, err)
	must.Do(t, again())
	if p.Profile().CreatesOnce && refused != 2 {
		t.Errorf("%d removals were refused", refused)
	}
}

// TestNoUploads: a store that calls it an error when there are no uploads is walked like others.
func TestNoUploads(t *testing.T) {
	server := s3test.Start(t, false)
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		o := server.Options(t)
		o.Client = client
		o.Endpoint = s3test.Unwell(t, server, func(w http.ResponseWriter, r *http.Request) bool {
			_, asked := r.URL.Query()["uploads"]
			if asked = asked && r.Method == http.MethodGet; asked {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, "<Error><Code>NoSuchUpload</Code></Error>")
			}
			return asked
		})
		p := s3test.Open(t, o)
		strays := mover.WalkOptions{Stray: func(s mover.Stray) { t.Errorf("a stray: %+v", s) }}
		for e, err := range p.Walk(t.Context(), strays) {
			t.Errorf("%s: %+v, %v", client, e, err)
		}
	}
}

// TestProfile: what versitygw checks is found, kept, and not asked for again; a
// place that is only read is not probed.
//
//safety:2 a checksum is believed only where the store was seen to check it
func TestProfile(t *testing.T) {
	o := s3test.Start(t, false).Options(t)
	reader := o
	reader.Writable = false
	if p := s3test.Open(t, reader); p.Capabilities().Level != mover.Written {
		t.Errorf("a place that was never probed has level %v", p.Capabilities().Level)
	}
	p := s3test.Open(t, o)
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		t.Errorf("the probe left %+v, %v", e, err)
	}
	if os.Getenv("DATAMOVE_E2E_S3") != "" {
		t.Skip("what another server checks is its own business")
	}
	if p.Capabilities().Level != mover.Server || !strings.EqualFold(p.Capabilities().System, "versitygw") {
		t.Errorf("traits %+v", p.Capabilities())
	}
	files, err := filepath.Glob(filepath.Join(o.StateDir, "s3", "profile-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("profiles %q, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	must.Do(t, err)
	for _, claim := range []string{"checksPut", "checksPart", "checksWhole", "tellsCRC", "createsOnce", "matchesPut", "matchesGet", "matchesDrop", "matchesCopy", "copiesParts", "keepsMarkers", "listsUploads"} {
		if !strings.Contains(string(text), `"`+claim+`": true`) {
			t.Errorf("%s is not found in\n%s", claim, text)
		}
	}
	if p := s3test.Open(t, reader); p.Capabilities().Level != mover.Server {
		t.Errorf("the profile was not read")
	}
	if skew := p.ClockSkew().Abs(); skew > 2*time.Second {
		t.Errorf("the clock of this machine is %v from its own", skew)
	}
}

// TestProfileOfBusyStore: what a store can do is found out also while it refuses calls for the moment, or loses answers. It was
// taken for unable to do what it had refused once, and that was kept.
func TestProfileOfBusyStore(t *testing.T) {
	server := s3test.Start(t, false)
	plain := server.Options(t)
	want := s3test.Open(t, plain).Profile()
	for name, endpoint := range map[string]string{
		"busy": s3test.Unwell(t, server, s3test.OneIn(4, s3test.Busy)),
		"lost": s3test.Unwell(t, server, s3test.OneIn(40, s3test.Reset)),
	} {
		t.Run(name, func(t *testing.T) {
			o := server.Options(t)
			o.Endpoint = endpoint
			p, err := s3.Open(t.Context(), o)
			for errors.Is(err, mover.ErrTransient) { // its first call
				p, err = s3.Open(t.Context(), o)
			}
			must.Do(t, err)
			t.Cleanup(func() { must.Tell(t, p.Close()) })
			got := p.Profile()
			got.Address, got.Probed = want.Address, want.Probed
			if got != want {
				t.Errorf("found\n%+v, want\n%+v", got, want)
			}
			for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
				if err == nil {
					t.Errorf("the probe left %+v", e)
				}
			}
		})
	}
}

// TestProfileInDoubt: what could not be found out is said, and not kept.
func TestProfileInDoubt(t *testing.T) {
	server := s3test.Start(t, false)
	o := server.Options(t)
	o.Endpoint = s3test.Unwell(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		fails := r.Header.Get("If-None-Match") != ""
		if fails {
			s3test.Reset(w, r)
		}
		return fails
	})
	var log strings.Builder
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	p := s3test.Open(t, o)
	if p.Profile().CreatesOnce || !strings.Contains(log.String(), "not known for sure") {
		t.Errorf("found %+v, and said\n%s", p.Profile(), log.String())
	}
	if kept := must.Get(filepath.Glob(filepath.Join(o.StateDir, "s3", "profile-*.json")))(t); len(kept) != 0 {
		t.Errorf("%q was kept", kept)
	}
}

// TestManifestShelf: a manifest is replaced whole, small or large, is hidden from
// walks, and is not there when its writer fails.
func TestManifestShelf(t *testing.T) {
	p := s3test.Open(t, s3test.Start(t, false).Options(t))
	if _, err := p.OpenManifest(t.Context()); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("no manifest: %v", err)
	}
	for _, size := range []int64{0, 10, 16<<20 + 1} {
		data := backendtest.Pattern(size)
		must.Do(t, p.PutManifest(t.Context(), func(w io.Writer) error { _, err := w.Write(data); return err }))
		if got := manifest(t, p); !bytes.Equal(got, data) {
			t.Errorf("%d bytes became %d", size, len(got))
		}
	}
	broken := errors.New("writer broke")
	err := p.PutManifest(t.Context(), func(w io.Writer) error { _, _ = w.Write([]byte("half")); return broken })
	if !errors.Is(err, broken) || len(manifest(t, p)) != 16<<20+1 {
		t.Errorf("a failed writer: %v", err)
	}
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		t.Errorf("walk shows %+v, %v", e, err)
	}
}

func manifest(t *testing.T, p *s3.Backend) []byte {
	t.Helper()
	r := must.Get(p.OpenManifest(t.Context()))(t)
	defer r.Close()
	data := must.Get(io.ReadAll(r))(t)
	return data
}

// TestBackup: what is replaced or removed is copied away first, facts and all.
//
//safety:5 with mover/backend/posix TestBackup
func TestBackup(t *testing.T) {
	server := s3test.Start(t, false)
	o := server.Options(t)
	o.Backup = o.Prefix + "-old/run1"
	p := s3test.Open(t, o)
	put := func(text string) { backendtest.Put(t, p, fileEntry("d/f", []byte(text)), []byte(text)) }
	put("first")
	put("second")
	saved := o
	saved.Prefix, saved.Backup = o.Backup, ""
	old := s3test.Open(t, saved)
	if got := string(backendtest.Read(t, old, "d/f")); got != "first" {
		t.Errorf("the backup of what was replaced holds %q", got)
	}
	e := must.Get(p.Stat(t.Context(), "d/f"))(t)
	must.Do(t, p.Remove(t.Context(), e, mover.WriterID{Task: "t"}))
	if got := string(backendtest.Read(t, old, "d/f")); got != "second" {
		t.Errorf("the backup of what was removed holds %q", got)
	}
	if e, err := old.Stat(t.Context(), "d/f"); err != nil || e.Mode != 0o640 {
		t.Errorf("the backup is %+v, %v", e, err)
	}
}

// TestKeyLimits: a name whose key is too long is refused by name, not cut.
func TestKeyLimits(t *testing.T) {
	server := s3test.Start(t, false)
	p := s3test.Open(t, server.Options(t))
	room := s3.KeyBytes - len(strings.TrimPrefix(p.String(), "s3://"+server.Bucket+"/")) - 1
	name := func(n int) string { // of n bytes, in segments that every server takes
		s := strings.Repeat(strings.Repeat("k", 99)+"/", n/100+1)[:n]
		return strings.TrimSuffix(s, "/") + strings.Repeat("k", len(s)-len(strings.TrimSuffix(s, "/")))
	}
	longest := name(room)
	backendtest.Put(t, p, fileEntry(longest, []byte("x")), []byte("x"))
	if got := string(backendtest.Read(t, p, longest)); got != "x" {
		t.Errorf("a key of %d bytes holds %q", s3.KeyBytes, got)
	}
	long := name(room + 1)
	_, err := p.Draft(t.Context(), fileEntry(long, nil), mover.Hints{})
	if !errors.Is(err, mover.ErrUnsupported) || !strings.Contains(err.Error(), long) {
		t.Errorf("a key of %d bytes: %v", s3.KeyBytes+1, err)
	}
}

// TestCloneBetweenPrefixes: the server copies by itself, and not what has changed.
func TestCloneBetweenPrefixes(t *testing.T) {
	server := s3test.Start(t, false)
	from, to := s3test.Open(t, server.Options(t)), s3test.Open(t, server.Options(t))
	backendtest.Put(t, from, fileEntry("f", []byte("one")), []byte("one"))
	e := must.Get(from.Stat(t.Context(), "f"))(t)
	clone := func() (mover.Outcome, bool) {
		c, err := from.Open(t.Context(), e)
		must.Do(t, err)
		defer c.Close()
		d, err := to.Draft(t.Context(), e, mover.Hints{})
		must.Do(t, err)
		defer d.Close()
		ok, err := d.(mover.Cloner).Clone(t.Context(), c)
		if err != nil || !ok {
			return mover.Outcome{Err: err}, ok
		}
		must.Do(t, d.Finish(t.Context(), e, nil))
		backendtest.Put(t, from, fileEntry("f", []byte("two")), []byte("two"))
		return to.Publish(t.Context(), []mover.Draft{d})[0], ok
	}
	if out, ok := clone(); ok && !errors.Is(out.Err, mover.ErrChanged) {
		t.Errorf("a source that changed was cloned: %+v", out)
	}
}

// TestOptions: words that are wrong are refused before anything is sent.
func TestOptions(t *testing.T) {
	good := s3.Options{Bucket: "bucket", Endpoint: "http://127.0.0.1:1", Credentials: "anonymous", StateDir: t.TempDir()}
	for what, spoil := range map[string]func(*s3.Options){
		"no bucket":       func(o *s3.Options) { o.Bucket = "" },
		"bucket":          func(o *s3.Options) { o.Bucket = "a/b" },
		"backup":          func(o *s3.Options) { o.Backup = "../old" },
		"backup of all":   func(o *s3.Options) { o.Backup = "/" },
		"backup = target": func(o *s3.Options) { o.Prefix, o.Backup = "a", "a" },
		"target in it":    func(o *s3.Options) { o.Prefix, o.Backup = "a/b", "a" },
		"prefix":          func(o *s3.Options) { o.Prefix = "a/../b" },
		"endpoint":        func(o *s3.Options) { o.Endpoint = "s3.example.org" },
		"endpoint + path": func(o *s3.Options) { o.Endpoint = "https://s3.example.org/path" },
		"client":          func(o *s3.Options) { o.Client = "boto" },
		"credentials":     func(o *s3.Options) { o.Credentials = "AKIAEXAMPLE:secret" },
	} {
		o := good
		spoil(&o)
		if _, err := s3.Open(t.Context(), o); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestPlainHTTP: who sends in the clear is told so once, and not where nothing
// leaves this machine.
func TestPlainHTTP(t *testing.T) {
	host := strings.ToLower(rand.Text()) + ".invalid" // that this process was not warned of
	for endpoint, want := range map[string]int{
		"http://" + host: 1, "https://" + host: 0,
		"http://127.0.0.1:1": 0, "http://[::1]:1": 0, "http://localhost:1": 0,
	} {
		var log bytes.Buffer
		o := s3.Options{Bucket: "bucket", Endpoint: endpoint, Credentials: "anonymous", StateDir: t.TempDir()}
		for _, o.Logger = range []*slog.Logger{nil, slog.New(slog.NewTextHandler(&log, nil)), slog.New(slog.NewTextHandler(&log, nil))} {
			if _, err := s3.Open(t.Context(), o); !errors.Is(err, mover.ErrUnreachable) {
				t.Fatalf("%s: %v", endpoint, err)
			}
		}
		if got := strings.Count(log.String(), "plain http"); got != want {
			t.Errorf("%s: %d warnings, want %d:\n%s", endpoint, got, want, log.String())
		}
	}
}

// TestCABundle: the authorities of AWS_CA_BUNDLE, or of ca_bundle of the profile, and ours are both trusted, also by
// the chain of the SDK, which by itself refuses to have both.
func TestCABundle(t *testing.T) {
	server := s3test.Start(t, true)
	o := server.Options(t)
	o.CABundle, o.Credentials = "", "profile:test"
	if server.CA == "" {
		t.Skip("the server has a certificate of the system's")
	}
	keys := filepath.Join(t.TempDir(), "credentials")
	text := fmt.Sprintf("[test]\naws_access_key_id = %s\naws_secret_access_key = %s\n", server.Access, server.Secret)
	must.Do(t, os.WriteFile(keys, []byte(text), 0o600))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", keys)
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		o.Client = client
		if _, err := s3.Open(t.Context(), o); !errors.Is(err, mover.ErrUnreachable) {
			t.Errorf("%s: an unknown certificate: %v", client, err)
		}
		t.Run(client, func(t *testing.T) {
			t.Setenv("AWS_CA_BUNDLE", server.CA)
			s3test.Open(t, o)
		})
		t.Run(client+" profile", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			must.Do(t, os.WriteFile(file, []byte("[profile test]\nca_bundle = "+server.CA+"\n"), 0o600))
			t.Setenv("AWS_CONFIG_FILE", file)
			s3test.Open(t, o)
			if r, err := o.API().Resolved(t.Context()); r.CABundle != server.CA || err != nil {
				t.Errorf("elsewhere %q is trusted, %v", r.CABundle, err)
			}
		})
	}
}

// TestSymlinkThatIsNone: an object that only says that it is a symlink, but can not
// be one, is a file.
func TestSymlinkThatIsNone(t *testing.T) {
	p := s3test.Open(t, s3test.Start(t, false).Options(t))
	link := mover.Entry{Name: "l", Kind: mover.Symlink, Target: "x"}
	publish := func(e mover.Entry) {
		d := must.Get(p.Draft(t.Context(), e, mover.Hints{}))(t)
		defer d.Close()
		must.Do(t, d.Finish(t.Context(), e, nil))
		if out := p.Publish(t.Context(), []mover.Draft{d})[0]; out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	publish(link)
	if e, err := p.Stat(t.Context(), "l"); err != nil || e.Kind != mover.Symlink || e.Size != 0 {
		t.Errorf("a symlink is %+v, %v", e, err)
	}
	for _, target := range []string{"", "a\x00b", strings.Repeat("x", 5000)} {
		e := link
		e.Target = target
		if _, err := p.Draft(t.Context(), e, mover.Hints{}); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("symlink to %d bytes: %v", len(target), err)
		}
	}
}

// TestWalkOfManyDirectories: what is listed ahead comes in order from a real server.
func TestWalkOfManyDirectories(t *testing.T) {
	p := s3test.Open(t, s3test.Start(t, false).Options(t))
	s3.WalkInSteps(p)
	var want []string
	var batch []mover.Draft
	for d := range 20 {
		for f := range 12 {
			name := fmt.Sprintf("d%02d/f%02d\x02", d, f)
			want = append(want, name)
			batch = append(batch, drafted(t, p, name, []byte(name)))
		}
	}
	for tries := 5; len(batch) > 0; tries-- { // rclone may answer 500 where many make one folder
		var left []mover.Draft
		for i, out := range p.Publish(t.Context(), batch) {
			if out.Err != nil && (tries == 1 || !errors.Is(out.Err, mover.ErrTransient)) {
				t.Fatal(out.Err)
			}
			if out.Err != nil {
				left = append(left, batch[i])
			}
		}
		batch = left
	}
	var got []string
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		if e.Kind == mover.File {
			got = append(got, e.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("walk yields %d names, want %d", len(got), len(want))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range p.Walk(ctx, mover.WalkOptions{}) {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("a walk that was stopped ends with %v", last)
	}
}

// TestRemoveATarget: a directory that was the target of a run of its own goes with the manifest and the locks that are in it, unless a run is at work there.
func TestRemoveATarget(t *testing.T) {
	o := s3test.Start(t, false).Options(t)
	for _, row := range []struct{ here, there bool }{{true, true}, {false, true}, {false, false}} { // has locks that are objects
		p := s3test.Open(t, o)
		dir := mover.Entry{Name: "dir", Kind: mover.Dir}
		nested := o
		nested.Prefix = mover.Join(strings.Trim(o.Prefix, "/"), dir.Name)
		q := s3test.Open(t, nested)
		held := mover.ErrHeld
		if !row.here {
			s3.Distrust(p)
		}
		if !row.there {
			s3.Distrust(q)
		} else if !row.here && q.Profile().CreatesOnce {
			held = mover.ErrConflict
		}
		manifest := func(w io.Writer) error { _, err := io.WriteString(w, "what there is"); return err }
		must.Do(t, p.Mkdir(t.Context(), dir))
		must.Do(t, q.PutManifest(t.Context(), manifest))
		_, unlock, err := q.Lock(t.Context(), "", mover.WriterID{Task: "at work"})
		must.Do(t, err)
		if err := p.Remove(t.Context(), dir, mover.WriterID{Task: "removes"}); !errors.Is(err, held) {
			t.Errorf("%+v: while a run is at work: %v", row, err)
		}
		if _, err := q.OpenManifest(t.Context()); err != nil {
			t.Errorf("its manifest: %v", err)
		}
		must.Do(t, unlock())
		must.Do(t, p.Remove(t.Context(), dir, mover.WriterID{Task: "removes"}))
		if _, err := p.Stat(t.Context(), dir.Name); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("the directory: %v", err)
		}
		if r, err := q.OpenManifest(t.Context()); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("the manifest is there: %v, %v", r, err)
		}
	}
}
