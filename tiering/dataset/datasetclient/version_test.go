package datasetclient

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestVersions: which version is the newest, which one holders have, and where else they have it; whose lease is not renewed has nothing.
func TestVersions(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2")
		file := filepath.Join(c.Dir, "shared/train/file")
		must.Do(t, os.Mkdir(filepath.Dir(file), 0o755))
		added := func(content string) string {
			must.Do(t, os.WriteFile(file, []byte(content), 0o644))
			return c.Add("train", "shared:train")
		}
		here, there := of(t, c), of(t, c)
		here.Node, there.Node = "n1", "n2"
		first := added("one")
		must.Get(there.Stage(t.Context(), Source{Location: "dataset:train", Tier: "scratch"}, "csi:a:there"))(t)
		second := added("two, and longer")
		if got, err := here.Newest(t.Context(), "train"); got != second || err != nil {
			t.Errorf("%s is the newest, and not %s: %v", got, second, err)
		}
		if _, err := here.Newest(t.Context(), "none"); !errors.Is(err, mover.ErrNotExist) {
			t.Error(err)
		}
		for prefix, want := range map[string]string{"csi:a:": first, "csi:b:": ""} {
			if got, err := here.Version(t.Context(), "train", prefix); got != want || err != nil {
				t.Errorf("%s has %q, and not %q: %v", prefix, got, want, err)
			}
		}
		where := func(of *Mover, prefix, holder, want string) {
			t.Helper()
			if got, err := of.Elsewhere(t.Context(), prefix, holder); got != want || err != nil {
				t.Errorf("%s of %s: %q, and not %q: %v", prefix, of.Node, got, want, err)
			}
		}
		where(here, "csi:a:", "csi:a:here", "n2")
		where(here, "csi:b:", "csi:b:here", "")
		where(there, "csi:a:", "csi:a:there", "")
		must.Get(here.Stage(t.Context(), Source{Location: "dataset:train", Tier: "shared"}, "csi:b:one"))(t)
		where(there, "csi:b:", "csi:b:two", "tier shared")
		where(there, "csi:b:", "csi:b:one", "")
		time.Sleep(41 * time.Minute) // of an hour, in which it is renewed three times
		where(here, "csi:a:", "csi:a:here", "")
	})
}
