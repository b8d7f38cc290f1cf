package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestJournalsQuota: an account that fills the directory of its journals on an agent while it has a worker there loses the worker, gets no
// other one until it has made room, and is told why; what it has is shown to it.
//
//safety:8 a user that fills the directory of journals on an agent, which the user owns while it has a worker, beside the ledger
func TestJournalsQuota(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const limit = 64 << 20
		c := rig.New(t, "n1")
		conf := *c.Conf.Load()
		conf.Quotas.Users = map[string]config.Quota{"root": {Journals: limit}} // its account has quotas only where it is named
		c.Conf.Store(&conf)
		c.Tree("shared/source", 60, 8, 4<<20)
		id := c.Slow("shared:source", "shared:target", 1<<20).GetId()
		c.Half(id, begun)
		journals := filepath.Join(c.Dir, "agents/n1/users", fmt.Sprint(os.Geteuid()))
		must.Do(t, os.WriteFile(filepath.Join(journals, "mine"), make([]byte, limit), 0o600))
		refused := func(id string) {
			t.Helper()
			c.Until("the task fails", func() bool { return task.Ended(c.Now(id).GetState()) })
			if x := c.Now(id); x.GetState() != task.Failed || x.GetErrorKind() != "REFUSED" || !strings.Contains(x.GetError(), journals) || !strings.Contains(x.GetError(), "quotas.users.root.journals") {
				t.Errorf("it is %s: %s %s", task.Word(x.GetState()), x.GetErrorKind(), x.GetError())
			}
		}
		refused(id)
		refused(c.Slow("shared:source", "shared:target", 0).GetId())
		shown := func() (used, limit int64) {
			u := must.Get(c.GetUsage(t.Context(), &pb.GetUsageRequest{}))(t)
			for _, q := range u.GetQuotas() {
				if q.GetResource() == "journals" {
					used, limit = q.GetUsed(), q.GetLimit()
				}
			}
			return used, limit
		}
		c.Until("it is shown", func() bool { used, of := shown(); return used > limit && of == limit })
		must.Do(t, os.Remove(filepath.Join(journals, "mine")))
		c.Done(c.Slow("shared:source", "shared:target", 0).GetId())
		c.Until("it is shown that there is less", func() bool { used, of := shown(); return used < limit && of == limit })
	})
}
