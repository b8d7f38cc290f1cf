package posix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

var testOwner = mover.WriterID{Task: "test", Epoch: 3}

// TestNothingEscapes swaps a directory of the target with a symlink that leads out
// of it, again and again, while everything that a place can do is done below it.
// Calls may fail; what the link leads to must never be touched.
//
//safety:6 a parent is swapped with a link that leads out, while everything is done below it
func TestNothingEscapes(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(map[bool]string{false: "openat2", true: "segment by segment"}[plain], func(t *testing.T) {
			escape(t, plain)
		})
	}
}

func escape(t *testing.T, plain bool) {
	dir := memoryDir(t)
	root, outside := filepath.Join(dir, "root"), filepath.Join(dir, "outside")
	for _, d := range []string{root, root + "/d", root + "/d/sub", outside, outside + "/sub"} {
		must.Do(t, os.Mkdir(d, 0o755))
	}
	must.Do(t, os.WriteFile(outside+"/f", []byte("canary"), 0o644))
	must.Do(t, os.Symlink(outside, root+"/evil"))
	p := opened(t, root, Options{})
	p.plain = plain
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	var swapped atomic.Int64
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if unix.Renameat2(unix.AT_FDCWD, root+"/d", unix.AT_FDCWD, root+"/evil", unix.RENAME_EXCHANGE) == nil {
					swapped.Add(1)
				}
			}
		}
	})
	worked, refused := 0, 0
	for i := range kill.Times(3_000, 30_000) {
		p.handles.forget("") // each try looks its way up again
		if i%20 == 0 {       // however busy the machine is, some begin with the directory there, and some with the link
			for swapped.Load()%2 != int64(i/20%2) {
				runtime.Gosched()
			}
		}
		if err := disturb(t, p, i); err == nil {
			worked++
		} else {
			refused++
		}
	}
	close(stop)
	swaps.Wait()
	if worked == 0 || refused == 0 {
		t.Errorf("%d tries worked and %d were refused: the swapping was not seen", worked, refused)
	}
	text, err := os.ReadFile(outside + "/f")
	if err != nil || string(text) != "canary" {
		t.Errorf("the file outside holds %q (%v)", text, err)
	}
	if names := namesBelow(t, outside); strings.Join(names, " ") != "f sub" {
		t.Errorf("outside there is %q now", names)
	}
}

// TestLinkOnTheWay has a directory become a symbolic link after it was worked in: nothing is done behind it, wherever it
// leads, and wherever on the way it is.
func TestLinkOnTheWay(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for what, to := range map[string]string{"out": "/outside", "out, relatively": "../outside", "elsewhere in the root": "other"} {
			t.Run(fmt.Sprintf("%s, plain %v", what, plain), func(t *testing.T) {
				dir := memoryDir(t)
				root := dir + "/root"
				for _, d := range []string{"/root/d/sub", "/outside/sub", "/root/other/sub"} {
					must.Do(t, os.MkdirAll(dir+d, 0o755))
					must.Do(t, os.WriteFile(dir+d+"/f", []byte("canary"), 0o644))
				}
				p := opened(t, root, Options{})
				p.plain = plain
				was := statOf(t, p, "d/sub/f")
				must.Do(t, os.Rename(root+"/d", root+"/was"))
				if filepath.IsAbs(to) {
					to = dir + to
				}
				must.Do(t, os.Symlink(to, root+"/d"))
				before := namesBelow(t, dir)
				p.handles.forget("") // as their age makes it
				ctx := t.Context()
				walk := func(dir string) error {
					for _, err := range p.Walk(ctx, mover.WalkOptions{Dir: dir}) {
						return err
					}
					return nil
				}
				file, made := fileEntry("d/sub/new", ""), mover.Entry{Name: "d/sub/made", Kind: mover.Dir}
				for call, err := range map[string]error{
					"stat": second(p.Stat(ctx, "d/sub/f")), "open": second(p.Open(ctx, was)), "draft": publish(t, p, file, mover.Hints{}), "mkdir": p.Mkdir(ctx, made),
					"link": publish(t, p, fileEntry("d/sub/link", "canary"), mover.Hints{Link: "was/sub/f"}), "linked": publish(t, p, fileEntry("linked", "canary"), mover.Hints{Link: "d/sub/f"}),
					"update": p.Update(ctx, mover.Entry{Name: "d/sub/f", Kind: mover.File, Known: mover.FactMode, Mode: 0o600}), "remove": p.Remove(ctx, was, testOwner),
					"walk": walk("d/sub"), "walk the link": walk("d"), "mkdir in the link": p.Mkdir(ctx, mover.Entry{Name: "d/made", Kind: mover.Dir}),
				} {
					if err == nil {
						t.Errorf("%s: it was done", call)
					}
				}
				if after := namesBelow(t, dir); !slices.Equal(before, after) {
					t.Errorf("there is %q, and was %q", after, before)
				}
				for _, d := range []string{"/outside/sub/f", "/root/other/sub/f"} {
					if st, err := os.Stat(dir + d); err != nil || st.Mode() != 0o644 {
						t.Errorf("%s: %v, %v", d, st.Mode(), err)
					}
				}
			})
		}
	}
}

func second[T any](_ T, err error) error { return err }

// disturb does one thing below d.
func disturb(t *testing.T, p *Backend, i int) error {
	ctx := t.Context()
	e := mover.Entry{Name: "d/f", Kind: mover.File, Size: 1, Known: mover.FactMode, Mode: 0o600}
	switch i % 6 {
	case 0:
		d, err := p.Draft(ctx, e, mover.Hints{By: testOwner})
		if err != nil {
			return err
		}
		defer d.Close()
		r, err := d.WritePart(ctx, mover.Part{Length: 1}, backendtest.NewFeed([]byte("x")))
		if err == nil {
			err = d.Finish(ctx, e, []mover.Receipt{r})
		}
		if err != nil {
			return err
		}
		return p.Publish(ctx, []mover.Draft{d})[0].Err
	case 1:
		now, err := p.Stat(ctx, "d/f")
		if err != nil {
			return err
		}
		if now.Size == 6 {
			t.Error("stat sees the file outside")
		}
		return p.Remove(ctx, now, testOwner)
	case 2:
		return p.Mkdir(ctx, mover.Entry{Name: "d/sub/new", Kind: mover.Dir})
	case 3:
		return p.Update(ctx, mover.Entry{Name: "d/sub", Kind: mover.Dir, Known: mover.FactMode, Mode: 0o711})
	case 4:
		return errors.Join(p.Drop(ctx, "d/.datamove-test-3-zz"), p.Mkdir(ctx, mover.Entry{Name: "d/g", Kind: mover.Dir}))
	default:
		for e, err := range p.Walk(ctx, mover.WalkOptions{Dir: "d"}) {
			if e.Size == 6 {
				t.Error("a walk sees the file outside")
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func namesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	must.Do(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			names = append(names, rel)
		}
		return err
	}))
	return names
}

// TestBeyondPathMax makes, walks and removes a tree whose names are longer than
// what the kernel takes at once.
//
//safety:6 long ways down; what a file system may answer
func TestBeyondPathMax(t *testing.T) {
	p := opened(t, memoryDir(t), Options{})
	ctx := t.Context()
	seg := strings.Repeat("s", 200)
	name := ""
	for range 60 { // 12,000 bytes
		name = mover.Join(name, seg)
		must.Do(t, p.Mkdir(ctx, mover.Entry{Name: name, Kind: mover.Dir}))
	}
	file := mover.Entry{Name: name + "/file", Kind: mover.File, Size: 4, Known: mover.FactMode, Mode: 0o644}
	backendtest.Put(t, p, file, []byte("deep"))
	if got := backendtest.Read(t, p, file.Name); string(got) != "deep" {
		t.Errorf("the deep file holds %q", got)
	}
	var all []mover.Entry
	for e, err := range p.Walk(ctx, mover.WalkOptions{}) {
		must.Do(t, err)
		all = append(all, e)
	}
	if len(all) != 61 || all[60].Name != file.Name {
		t.Fatalf("the walk yields %d entries", len(all))
	}
	for i := len(all) - 1; i >= 0; i-- {
		must.Do(t, p.Remove(ctx, all[i], testOwner))
	}
}

// TestHostileTokens: a token comes from a journal that anybody may have written.
//
//safety:6 tokens that lead elsewhere
func TestHostileTokens(t *testing.T) {
	dir := memoryDir(t)
	p := opened(t, dir, Options{})
	must.Do(t, os.WriteFile(dir+"/precious", nil, 0o644))
	for _, token := range []mover.Token{"", "precious", "../.datamove-test-3-1", "/etc/passwd", "a/../.datamove-test-3-1", ".datamove-lock", "x\x00"} {
		if err := p.Drop(t.Context(), token); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("drop of %q: %v", token, err)
		}
		if _, err := p.Adopt(t.Context(), token); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("adoption of %q: %v", token, err)
		}
	}
	if _, err := os.Stat(dir + "/precious"); err != nil {
		t.Error(err)
	}
}
