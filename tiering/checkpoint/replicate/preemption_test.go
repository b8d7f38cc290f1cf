package replicate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/tiering/checkpoint"
)

// drill is a watch that is told of alarms, and what it tells.
type drill struct {
	*world
	alarms chan Alarm
	stop   context.CancelFunc
	ended  chan error

	mu     sync.Mutex
	told   []Told
	events []Event
}

// drill begins a watch of nvme in which nothing settles by itself.
func (w *world) drill(set func(*Watch), to ...string) *drill {
	d := &drill{world: w, alarms: make(chan Alarm), ended: make(chan error, 1)}
	watch := w.watch(func(e Event) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.events = append(d.events, e)
	}, "nvme", to...)
	watch.Once, watch.Settle, watch.Alarms = false, time.Hour, d.alarms
	watch.TellAlarm = func(t Told) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.told = append(d.told, t)
	}
	if set != nil {
		set(watch)
	}
	var ctx context.Context
	ctx, d.stop = context.WithCancel(w.Context())
	go func() { d.ended <- watch.Run(ctx) }()
	w.Cleanup(d.stop)
	return d
}

// turns are those that were told, with the last one.
func (d *drill) turns() (all []Turn, last Told) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.told {
		all, last = append(all, t.Turn), t
	}
	return all, last
}

func (d *drill) come(turn Turn) Told {
	d.Helper()
	until(d, string(turn), func() bool { all, _ := d.turns(); return slices.Contains(all, turn) })
	_, last := d.turns()
	return last
}

// at says which checkpoints had come to a state, in order.
func (d *drill) came(s checkpoint.State, to string) (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.State == s && e.To != "" && filepath.Base(e.To) == to {
			names = append(names, e.Name)
		}
	}
	return names
}

// TestAlarm: at a limit that would take an hour a watch brings an older checkpoint when it is told that the machine goes. The newest, which was sealed a moment ago, comes
// at once and without a limit, to both targets, and then the older ones; what is not complete stays.
//
//safety:5/jobs a machine that is about to be taken away, while older checkpoints are on their way, one is half written, and a target is away; a metadata service that hangs, lies or never ends
func TestAlarm(t *testing.T) {
	w := newWorld(t)
	w.site.Request.Bandwidth = 1
	w.save("nvme", "step_1", big("first"))
	d := w.drill(func(watch *Watch) { watch.Settle = 20 * time.Millisecond }, "peer", "pfs")
	until(t, "the first is on its way", func() bool { return slices.Contains(d.came(checkpoint.Copying, "peer"), "step_1") })
	w.save("nvme", "step_2", big("second"))
	w.save("nvme", "step_3", big("third"))
	must.Do(t, os.WriteFile(w.at("nvme/latest"), []byte("step_3"), 0o644))
	must.Do(t, os.MkdirAll(w.at("nvme/step_4"), 0o755))
	must.Do(t, os.WriteFile(w.at("nvme/step_4/__0_0.distcp"), []byte("half"), 0o644))
	until(t, "they are seen", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return slices.ContainsFunc(d.events, func(e Event) bool { return e.Name == "step_4" })
	})
	d.alarms <- Alarm{Why: "it goes", When: time.Now().Add(Near / 2)}
	home := d.come(Home)
	if home.Newest != "step_3" || len(home.Missing) != 0 || !slices.Equal(home.Open, []string{"step_4"}) {
		t.Errorf("home: %+v", home)
	}
	for _, to := range []string{"peer", "pfs"} {
		same(t, "the newest", w.at("nvme/step_3"), w.at(to+"/step_3"))
		until(t, "the rest", func() bool { return len(d.came(checkpoint.Verified, to)) == 3 })
		if came := d.came(checkpoint.Verified, to); came[0] != "step_3" {
			t.Errorf("at %s they came as %v", to, came)
		}
		same(t, "an older one", w.at("nvme/step_1"), w.at(to+"/step_1"))
		until(t, "the tracker", func() bool { return reads(w.at(to+"/latest")) == "step_3" })
		if _, err := os.Stat(w.at(to + "/step_4")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what is not complete, at %s: %v", to, err)
		}
	}
	d.stop()
	if err := <-d.ended; err != nil {
		t.Errorf("it was told to end, and the newest is home: %v", err)
	}
	if all, last := d.turns(); !slices.Equal(all, []Turn{Begun, Home, Over}) || !last.Last {
		t.Errorf("%v, %+v", all, last)
	}
}

// TestAlarmSettles: what no mark has sealed is not taken for complete sooner because of an alarm. Its framework may be writing still.
//
//safety:5/jobs with TestAlarm
func TestAlarmSettles(t *testing.T) {
	w := newWorld(t)
	must.Do(t, os.MkdirAll(w.at("nvme/checkpoint-7"), 0o755))
	must.Do(t, os.WriteFile(w.at("nvme/checkpoint-7/model.safetensors"), []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"), 0o644))
	must.Do(t, os.WriteFile(w.at("nvme/checkpoint-7/trainer_state.json"), []byte("{}"), 0o644))
	d := w.drill(nil, "pfs")
	d.alarms <- Alarm{Why: "it goes", When: time.Now().Add(300 * time.Millisecond)}
	over := d.come(Over)
	if over.Newest != "" || !slices.Equal(over.Open, []string{"checkpoint-7"}) || over.Last {
		t.Errorf("%+v", over)
	}
	if has := has(t, w.dir); len(has) != 2 {
		t.Errorf("something has left: %v", has)
	}
}

// TestAlarmAway: a target that is away does not keep the newest from the others; when the time is over the watch says where it is missing, goes on, and ends with an error.
//
//safety:5/jobs with TestAlarm
func TestAlarmAway(t *testing.T) {
	w := newWorld(t)
	w.save("nvme", "step_0", "older")
	w.save("nvme", "step_1", "alpha")
	must.Do(t, os.WriteFile(w.at("away"), nil, 0o644)) // where a directory should be
	d := w.drill(nil, "away", "pfs")
	d.alarms <- Alarm{Why: "it may go"}
	until(t, "the older one, too, has left for the other target", func() bool { return slices.Equal(d.came(checkpoint.Verified, "pfs"), []string{"step_1", "step_0"}) })
	d.alarms <- Alarm{Why: "it goes", When: time.Now().Add(time.Second)}
	over := d.come(Over)
	if over.Newest != "step_1" || len(over.Missing) != 1 || filepath.Base(over.Missing[0]) != "away" || over.Last {
		t.Errorf("%+v", over)
	}
	same(t, "the other target", w.at("nvme/step_1"), w.at("pfs/step_1"))
	d.stop()
	if err := <-d.ended; !errors.Is(err, mover.ErrTimeout) {
		t.Errorf("it ends with %v", err)
	}
}

// TestAlarmEnds: a watch that was told that its job has ended goes when the newest is home, and when there is none at once.
func TestAlarmEnds(t *testing.T) {
	w := newWorld(t)
	must.Do(t, os.MkdirAll(w.at("nvme"), 0o755))
	d := w.drill(nil, "pfs")
	d.alarms <- Alarm{Why: "told to end", When: time.Now().Add(Near / 2), Ends: true}
	if err := <-d.ended; err != nil {
		t.Errorf("with nothing to bring: %v", err)
	}
	w.save("nvme", "step_1", "alpha")
	d = w.drill(nil, "pfs")
	d.alarms <- Alarm{Why: "told to end", When: time.Now().Add(Near / 2), Ends: true}
	if err := <-d.ended; err != nil {
		t.Errorf("with one: %v", err)
	}
	same(t, "the newest", w.at("nvme/step_1"), w.at("pfs/step_1"))
	w.save("nvme", "step_2", "beta")
	must.Do(t, os.WriteFile(w.at("away"), nil, 0o644))
	d = w.drill(nil, "away")
	d.alarms <- Alarm{Why: "told to end", When: time.Now().Add(200 * time.Millisecond), Ends: true}
	if err := <-d.ended; !errors.Is(err, mover.ErrTimeout) {
		t.Errorf("with a target that is away: %v", err)
	}
}

// TestCrisis: which of several alarms is on, and until when.
func TestCrisis(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	soon, sooner, later := now.Add(2*time.Minute), now.Add(time.Minute), now.Add(48*time.Hour)
	for _, c := range []struct {
		what   string
		raised []Alarm
		on     string
		due    time.Duration
	}{
		{"none", nil, "", 0},
		{"one", []Alarm{{Why: "a", When: soon}}, "a", 2 * time.Minute},
		{"a sooner one takes its place", []Alarm{{Why: "a", When: soon}, {Why: "b", When: sooner}}, "b", time.Minute},
		{"a later one does not", []Alarm{{Why: "a", When: sooner}, {Why: "b", When: soon}}, "a", time.Minute},
		{"one without a time gives way", []Alarm{{Why: "a"}, {Why: "b", When: soon}}, "b", 2 * time.Minute},
		{"and does not come between", []Alarm{{Why: "a", When: soon}, {Why: "b"}}, "a", 2 * time.Minute},
		{"who ends is first", []Alarm{{Why: "a", When: sooner}, {Why: "b", When: soon, Ends: true}}, "b", 2 * time.Minute},
		{"one of the day after tomorrow waits", []Alarm{{Why: "a", When: later}}, "", 48*time.Hour - Near},
		{"its time was before now", []Alarm{{Why: "a", When: now.Add(-time.Hour)}}, "a", 0},
	} {
		var crisis crisis
		for _, a := range c.raised {
			crisis.raise(a, now)
		}
		due, on := crisis.wake(now), ""
		if crisis.now != nil {
			on = crisis.now.Why
		}
		if on != c.on || due != c.due {
			t.Errorf("%s: %q is on, and due in %v", c.what, on, due)
		}
	}
	var ahead crisis
	if !ahead.raise(Alarm{Why: "a", When: later}, now) || ahead.wake(later.Add(-Near-time.Second)) != time.Second || ahead.now != nil {
		t.Error("it is not ahead")
	}
	if ahead.wake(later.Add(-Near)) != Near || ahead.now == nil {
		t.Error("it does not begin")
	}
}
