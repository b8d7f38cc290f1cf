package daemon

import (
	"errors"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/backend/mem"
)

// TestNoChangelog: a directory that is on no Lustre opens nothing up for a feed, and its change log can not be had.
func TestNoChangelog(t *testing.T) {
	dir := t.TempDir()
	if c := feedReach(dir); len(c.List)+len(c.Devices)+len(c.Read)+len(c.Write) > 0 {
		t.Errorf("it opens %+v", c)
	}
	if _, _, err := feedOf(mem.New(mem.NewTree(), mem.Options{}), dir, &agentv1.FollowFeed{Kind: "changelog", Reader: "cl1"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
