package fairshare

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	datamovev1 "datamove.dev/api/datamove/v1"
)

const (
	restore    = datamovev1.TaskClass_TASK_CLASS_RESTORE
	checkpoint = datamovev1.TaskClass_TASK_CLASS_CHECKPOINT
	stage      = datamovev1.TaskClass_TASK_CLASS_STAGE
	replicate  = datamovev1.TaskClass_TASK_CLASS_REPLICATE
	tier       = datamovev1.TaskClass_TASK_CLASS_TIER
	scrub      = datamovev1.TaskClass_TASK_CLASS_SCRUB
)

const mib = 1 << 20

var classes = []datamovev1.TaskClass{restore, checkpoint, stage, replicate, tier, scrub}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPrice(t *testing.T) {
	for _, row := range []struct {
		name string
		cost Cost
		want int64
	}{
		{"bytes and operations", Cost{Bytes: 1000, Ops: 3}, 1000 + 3*512},
		{"a turn is one operation at least", Cost{Bytes: 1000}, 1000 + 512},
		{"nothing", Cost{}, 512},
		{"less than nothing", Cost{Bytes: -5, Ops: -5}, 512},
		{"bytes beyond bounds", Cost{Bytes: 1 << 62, Ops: 1}, maxTurn},
		{"operations beyond bounds", Cost{Ops: 1 << 62}, maxTurn},
		{"both", Cost{Bytes: 1<<63 - 1, Ops: 1<<63 - 1}, maxTurn},
	} {
		if got := row.cost.price(512); got != row.want {
			t.Errorf("%s: the price is %d, want %d", row.name, got, row.want)
		}
	}
}

func TestWeights(t *testing.T) {
	own := Weights{
		Classes:  map[datamovev1.TaskClass]int64{scrub: 5, tier: -3, stage: 1 << 60},
		Projects: map[string]int64{"vision": 7, "speech": -1},
	}
	for _, row := range []struct {
		name      string
		got, want int64
	}{
		{"restore", Weights{}.class(restore), 32},
		{"checkpoint", Weights{}.class(checkpoint), 16},
		{"stage", Weights{}.class(stage), 8},
		{"replicate", Weights{}.class(replicate), 4},
		{"tier", Weights{}.class(tier), 2},
		{"scrub", Weights{}.class(scrub), 1},
		{"a project", Weights{}.project("vision"), 1},
		{"scrub, overridden", own.class(scrub), 5},
		{"tier, badly overridden", own.class(tier), 2},
		{"stage, beyond bounds", own.class(stage), maxWeight},
		{"a project, overridden", own.project("vision"), 7},
		{"a project, badly overridden", own.project("speech"), 1},
	} {
		if row.got != row.want {
			t.Errorf("%s: the weight is %d, want %d", row.name, row.got, row.want)
		}
	}
}

// genFlow draws one of few flows, so that they meet at every level.
func genFlow(t *rapid.T) Flow {
	return Flow{
		Class:   rapid.SampledFrom(classes).Draw(t, "class"),
		Project: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "project"),
		User:    rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user"),
		Task:    rapid.SampledFrom([]string{"s", "t"}).Draw(t, "task"),
	}
}
