package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/fairshare"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/pricing"
)

const llama = `kind: Burst
metadata: {name: llama}
spec:
  team: vision
  job: {kind: training, priority: high, gpus: 64, startsIn: 9h}
  cloud:
    tier: archive
    region: us-east-1
    fileSystem: {type: SCRATCH_2, subnet: subnet-0123456789abcdef0}
  link: {kind: directConnect, rate: 10Gbit/s}
  lasts: 30h
  data:
    - {from: "project:vision/words", to: words}
  checkpoints:
    - {path: checkpoints, home: "project:vision/runs", profile: plain, size: 1GB, every: 30m}
`

// burstDesk is a desk at which alice and bob may burst for vision, and carol for audio.
func burstDesk(t *testing.T) *desk {
	conf := site()
	conf.Burst.Accounts = map[string]config.BurstAccount{"vision": {Cap: "$100", Ask: "ops@site"}, "audio": {Cap: "$50"}}
	conf.Projects = map[string]config.Project{"vision": {}, "audio": {}}
	return newDesk(t, conf, authz.Input{UID: 990, Projects: map[string]authz.Project{
		"vision": {Roots: []string{"project:vision", "archive:"}, Members: []string{"alice", "bob"}},
		"audio":  {Roots: []string{"project:audio", "archive:"}, Members: []string{"carol"}},
	}})
}

func (d *desk) apply(ctx context.Context, step pb.BurstStep, text, name string) (*pb.Task, error) {
	return d.ApplyBurst(ctx, &pb.ApplyBurstRequest{Step: step, Declaration: text, Name: name})
}

// ledBurst applies a step, and has an agent lead it.
func (d *desk) ledBurst(ctx context.Context, step pb.BurstStep, text, name string) *agentv1.Lead {
	d.t.Helper()
	t, err := d.apply(ctx, step, text, name)
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	d.give()
	if d.taken[t.GetId()] == nil {
		d.t.Fatalf("nobody leads %v: %s", step, d.state(t.GetId()).GetWhy())
	}
	return d.taken[t.GetId()]
}

// keeps has a lead keep a record.
func (d *desk) keeps(l *agentv1.Lead, r *burst.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	_, err = d.KeepBurst(asAgent(d.led[l.GetTask().GetId()]), &agentv1.KeepBurstRequest{Task: l.GetTask().GetId(), Epoch: l.GetEpoch(), Record: text})
	return err
}

func (d *desk) spends(l *agentv1.Lead, kind agentv1.SpendKind, id string, amount pricing.Money, key string) (*agentv1.SpendResponse, error) {
	return d.Spend(asAgent(d.led[l.GetTask().GetId()]), &agentv1.SpendRequest{Task: l.GetTask().GetId(), Epoch: l.GetEpoch(), Kind: kind, Burst: id, Micros: int64(amount), Key: key})
}

func recordOfText(t *testing.T, text string, now time.Time) *burst.Record {
	t.Helper()
	all := must.Get(burst.Read("test", []byte(text)))(t)
	return burst.Begin(all[0], "alice", burst.Admitted{By: "large"}, now)
}

// TestWhoMayBurst: the members of the project that has the name of the team, and nobody else; below the roots of that project.
func TestWhoMayBurst(t *testing.T) {
	d := burstDesk(t)
	alice, carol := as("alice", 1001), as("carol", 1003)
	up, estimate := pb.BurstStep_BURST_STEP_UP, pb.BurstStep_BURST_STEP_ESTIMATE
	wants(t, "a member", second(d.apply(alice, estimate, llama, "")), nil)
	wants(t, "somebody else", second(d.apply(carol, up, llama, "")), mover.ErrPermission)
	wants(t, "for another team", second(d.apply(alice, up, strings.Replace(llama, "team: vision", "team: audio", 1), "")), mover.ErrPermission)
	wants(t, "data of others", second(d.apply(alice, up, strings.Replace(llama, "project:vision/words", "project:audio/words", 1), "")), mover.ErrPermission)
	wants(t, "no declaration", second(d.apply(alice, up, "kind: Pod", "")), mover.ErrUsage)
	wants(t, "two", second(d.apply(alice, up, llama+"---\n"+strings.Replace(llama, "{name: llama}", "{name: other}", 1), "")), mover.ErrUsage)
	wants(t, "another name", second(d.apply(alice, up, llama, "other")), mover.ErrUsage)
	wants(t, "none of the steps", second(d.apply(alice, 99, "", "llama")), mover.ErrNotExist)
	wants(t, "one that is not there", second(d.apply(alice, pb.BurstStep_BURST_STEP_DOWN, "", "llama")), mover.ErrNotExist)
	wants(t, "as a task", second(d.SubmitTask(alice, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_BURST, Target: "archive:x"}})), mover.ErrUsage)
	wants(t, "in a task of another kind", second(d.SubmitTask(alice, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:vision/a", Target: "project:vision/b", Burst: &pb.BurstWork{}}})), mover.ErrUsage)

	l := d.ledBurst(alice, up, llama, "")
	r := recordOfText(t, llama, d.wall)
	wants(t, "kept", d.keeps(l, r), nil)
	wants(t, "seen by another member", second(d.GetBurst(as("bob", 1002), &pb.GetBurstRequest{Name: "llama"})), nil)
	wants(t, "seen by others", second(d.GetBurst(carol, &pb.GetBurstRequest{Name: "llama"})), mover.ErrNotExist)
	wants(t, "followed by others", second(d.FollowBurst(carol, &pb.FollowBurstRequest{Name: "llama"})), mover.ErrNotExist)
	wants(t, "their account", second(d.GetAccounts(carol, &pb.GetAccountsRequest{Teams: []string{"vision"}})), mover.ErrPermission)
	wants(t, "the name of another team's", second(d.apply(carol, up, strings.NewReplacer("team: vision", "team: audio", "project:vision", "project:audio").Replace(llama), "")), mover.ErrConflict)
	if all, err := d.GetAccounts(carol, &pb.GetAccountsRequest{}); err != nil || len(all.GetAccounts()) != 1 || all.GetAccounts()[0].GetTeam() != "audio" || all.GetAccounts()[0].GetCapMicros() != 50e6 {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := d.ListBursts(carol, &pb.ListBurstsRequest{}); err != nil || len(all.GetBursts()) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	for what, r := range map[string]*pb.ApplyBurstRequest{
		"what is given up, while it comes home": {Step: pb.BurstStep_BURST_STEP_SYNC_BACK, Name: "llama", Abandon: []string{"checkpoints"}},
		"a way up":                              {Step: pb.BurstStep_BURST_STEP_DOWN, Name: "llama", Abandon: []string{"../checkpoints"}},
		"less than no time":                     {Step: pb.BurstStep_BURST_STEP_DOWN, Name: "llama", Settle: durationpb.New(-time.Second)},
		"release":                               {Step: pb.BurstStep_BURST_STEP_DOWN, Name: "llama", Release: true},
		"take":                                  {Step: pb.BurstStep_BURST_STEP_DOWN, Name: "llama", Take: true},
		"another declaration":                   {Step: pb.BurstStep_BURST_STEP_STAGE, Name: "llama", Declaration: llama},
		"adopt":                                 {Step: pb.BurstStep_BURST_STEP_UP, Declaration: llama, Adopt: "0123456789abcdef"},
		"no ID to adopt":                        {Step: pb.BurstStep_BURST_STEP_ADOPT, Declaration: llama},
		"an ID that is none":                    {Step: pb.BurstStep_BURST_STEP_ADOPT, Declaration: llama, Adopt: "../0123456789abc"},
		"days":                                  {Step: pb.BurstStep_BURST_STEP_DOWN, Name: "llama", Days: 1},
		"costs of no days":                      {Step: pb.BurstStep_BURST_STEP_COSTS, Name: "llama"},
		"costs of a year":                       {Step: pb.BurstStep_BURST_STEP_COSTS, Name: "llama", Days: 365},
	} {
		wants(t, what, second(d.ApplyBurst(alice, r)), mover.ErrUsage)
	}
}

// TestRecordFence: only who leads a task on a burst keeps its record and spends its money, and only as that may go on.
//
//safety:3 with test/system/service TestBurstKilled
func TestRecordFence(t *testing.T) {
	d := burstDesk(t)
	alice := as("alice", 1001)
	l := d.ledBurst(alice, pb.BurstStep_BURST_STEP_UP, llama, "")
	r := recordOfText(t, llama, d.wall)
	reserve := agentv1.SpendKind_SPEND_KIND_RESERVE
	wants(t, "money before a record", second(d.spends(l, reserve, r.ID, pricing.Dollar, "k")), mover.ErrNotExist)
	other := recordOfText(t, strings.Replace(llama, "{name: llama}", "{name: other}", 1), d.wall)
	wants(t, "another burst", d.keeps(l, other), mover.ErrUsage)
	ready := *r
	ready.State = burst.Ready
	wants(t, "one that begins as ready", d.keeps(l, &ready), mover.ErrConflict)
	soon := recordOfText(t, strings.Replace(llama, "startsIn: 9h", "startsIn: 1h", 1), d.wall)
	wants(t, "one that no rule admits", d.keeps(l, soon), mover.ErrRefused)
	wants(t, "its own", d.keeps(l, r), nil)
	wants(t, "a second one", d.keeps(l, recordOfText(t, llama, d.wall)), mover.ErrConflict)
	wants(t, "a leap", d.keeps(l, &ready), mover.ErrConflict)
	wants(t, "the money of another", second(d.spends(l, reserve, other.ID, pricing.Dollar, "k")), mover.ErrUsage)
	if out, err := d.spends(l, reserve, r.ID, 60*pricing.Dollar, "k"); err != nil || out.GetError() != "" || out.GetAccount().GetFreeMicros() != 40e6 {
		t.Errorf("%v, %v", out, err)
	}
	if out, err := d.spends(l, reserve, r.ID, 60*pricing.Dollar, "k"); err != nil || !out.GetRepeated() || out.GetAccount().GetFreeMicros() != 40e6 {
		t.Errorf("again: %v, %v", out, err)
	}
	if out, err := d.spends(l, reserve, r.ID, 60*pricing.Dollar, "more"); err != nil || out.GetErrorKind() != mover.KindName(mover.ErrRefused) || !strings.Contains(out.GetError(), "ask ops@site") {
		t.Errorf("beyond the cap: %v, %v", out, err)
	}

	// Another task on it waits; one that looks does not.
	down, err := d.apply(alice, pb.BurstStep_BURST_STEP_DOWN, "", "llama")
	wants(t, "down", err, nil)
	look, err := d.apply(alice, pb.BurstStep_BURST_STEP_REAP, "", "llama")
	wants(t, "look", err, nil)
	d.give()
	if d.taken[down.GetId()] != nil || !strings.Contains(d.state(down.GetId()).GetWhy(), "works on burst llama") || d.taken[look.GetId()] == nil {
		t.Errorf("down: %v, look: %v", d.state(down.GetId()), d.state(look.GetId()))
	}
	wants(t, "who looks keeps nothing", d.keeps(d.taken[look.GetId()], r), mover.ErrUsage)
	wants(t, "nor spends", second(d.spends(d.taken[look.GetId()], reserve, r.ID, pricing.Dollar, "look")), mover.ErrUsage)

	// The lead is lost: it keeps and spends nothing more, also when it was asked just before.
	wants(t, "cancelled", second(d.CancelTask(alice, &pb.CancelTaskRequest{Id: down.GetId()})), nil)
	d.scheduler.lose(context.Background(), d.scheduler.leads[l.GetTask().GetId()], "it is silent")
	wants(t, "kept by who has lost it", d.keeps(l, r), mover.ErrHeld)
	wants(t, "spent by who has lost it", second(d.spends(l, reserve, r.ID, pricing.Dollar, "late")), mover.ErrHeld)
	d.give()
	again := d.taken[l.GetTask().GetId()]
	if again == nil || again.GetEpoch() <= l.GetEpoch() {
		t.Fatalf("%v", again)
	}
	known, err := d.ReadBurst(asAgent(d.led[again.GetTask().GetId()]), &agentv1.ReadBurstRequest{Task: again.GetTask().GetId(), Epoch: again.GetEpoch()})
	if err != nil || !strings.Contains(string(known.GetRecord()), r.ID) || known.GetPrices() == "" || known.GetAdmission() != burst.DefaultAdmission {
		t.Errorf("%v, %v", known, err)
	}
	wants(t, "who goes on", d.keeps(again, r), nil)
}

// TestAdoptFence: a task that takes a burst over keeps the record of the ID that it was asked for, and no task that brings one up keeps one of a burst that was taken over: that would pass by what admits it.
//
//safety:3 with test/system/service TestBurstKilled
func TestAdoptFence(t *testing.T) {
	d := burstDesk(t)
	alice, carol := as("alice", 1001), as("carol", 1003)
	const id = "0123456789abcdef"
	adopted := func(id string) *burst.Record {
		all := must.Get(burst.Read("test", []byte(llama)))(t)
		return burst.Adopt(all[0], id, "alice", burst.Admitted{By: "adopted"}, d.wall, d.wall)
	}
	up := d.ledBurst(alice, pb.BurstStep_BURST_STEP_UP, llama, "")
	wants(t, "brought up as one that was adopted", d.keeps(up, adopted(id)), mover.ErrConflict)
	wants(t, "the end of up", d.finish(up.GetTask().GetId(), 0, nil), nil)

	request := &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_ADOPT, Declaration: llama, Adopt: id}
	wants(t, "of another team", second(d.ApplyBurst(carol, request)), mover.ErrPermission)
	task := must.Get(d.ApplyBurst(alice, request))(t)
	d.give()
	l := d.taken[task.GetId()]
	if l == nil {
		t.Fatalf("nobody leads it: %s", d.state(task.GetId()).GetWhy())
	}
	if spec := l.GetTask().GetSpec(); len(spec.GetSources()) > 0 || len(spec.GetBurst().GetHomes()) > 0 {
		t.Errorf("it reaches %v", spec)
	}
	wants(t, "another ID", d.keeps(l, adopted("00000000000000ff")), mover.ErrConflict)
	wants(t, "a new one", d.keeps(l, recordOfText(t, llama, d.wall)), mover.ErrConflict)
	wants(t, "its own", d.keeps(l, adopted(id)), nil)
	if b, err := d.GetBurst(alice, &pb.GetBurstRequest{Name: "llama"}); err != nil || b.GetId() != id {
		t.Errorf("%v, %v", b, err)
	}

	costs := &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_COSTS, Name: "llama", Days: 5}
	wants(t, "costs of another team's", second(d.ApplyBurst(carol, costs)), mover.ErrNotExist)
	asks := must.Get(d.ApplyBurst(alice, costs))(t)
	d.give() // beside the task that works on the burst
	if d.taken[asks.GetId()] == nil {
		t.Fatalf("nobody leads it: %s", d.state(asks.GetId()).GetWhy())
	}
	wants(t, "who asks keeps nothing", d.keeps(d.taken[asks.GetId()], adopted(id)), mover.ErrUsage)
}

// TestMoneySurvives: the accounts are the same after the service has begun anew, and of a backup; caps are those of the configuration.
//
//safety:3 with test/system/service TestBurstKilled
func TestMoneySurvives(t *testing.T) {
	d := burstDesk(t)
	alice := as("alice", 1001)
	l := d.ledBurst(alice, pb.BurstStep_BURST_STEP_UP, llama, "")
	r := recordOfText(t, llama, d.wall)
	wants(t, "kept", d.keeps(l, r), nil)
	_, err := d.spends(l, agentv1.SpendKind_SPEND_KIND_RESERVE, r.ID, 10*pricing.Dollar, "a")
	wants(t, "reserve", err, nil)
	_, err = d.spends(l, agentv1.SpendKind_SPEND_KIND_CHARGE, r.ID, 3*pricing.Dollar, "b")
	wants(t, "charge", err, nil)
	account := func() *pb.BurstAccount {
		t.Helper()
		all := must.Get(d.GetAccounts(alice, &pb.GetAccountsRequest{Teams: []string{"vision"}}))(t)
		return all.GetAccounts()[0]
	}
	sure := func(when string, limit int64) {
		t.Helper()
		if a := account(); a.GetSpentMicros() != 3e6 || a.GetReservedMicros() != 7e6 || a.GetCapMicros() != limit || len(a.GetBursts()) != 1 || a.GetBursts()[0].GetId() != r.ID || a.GetBursts()[0].GetLeftMicros() != 7e6 {
			t.Errorf("%s: %v", when, a)
		}
	}
	sure("at first", 100e6)
	next := *d.conf
	next.Burst.Accounts = map[string]config.BurstAccount{"vision": {Cap: "$9"}}
	d.conf = &next
	sure("after a reload", 9e6)
	var backup bytes.Buffer
	wants(t, "backup", d.ledger.Backup(&backup), nil)
	d.close()
	d.open()
	sure("after a restart", 9e6)
	for range 2 { // what AWS says of a day replaces what it said before
		a, err := d.AdjustAccount(as("root", 0), &pb.AdjustAccountRequest{Team: "vision", Day: d.wall.UTC().Format(time.DateOnly), Micros: 4e6, Why: "Cost Explorer"})
		if err != nil || a.GetSpentMicros() != 4e6 {
			t.Errorf("%v, %v", a, err)
		}
	}
	_, err = d.AdjustAccount(as("root", 0), &pb.AdjustAccountRequest{Team: "vision", Day: d.wall.UTC().Format(time.DateOnly), Micros: 3e6})
	wants(t, "adjust", err, nil)
	_, err = d.AdjustAccount(as("root", 0), &pb.AdjustAccountRequest{Team: "vision", Day: "yesterday"})
	wants(t, "no day", err, mover.ErrUsage)
	_, err = d.AdjustAccount(as("root", 0), &pb.AdjustAccountRequest{Team: "nobody", Day: "2026-11-02"})
	wants(t, "no account", err, mover.ErrNotExist)
	d.close()
	d.dir = memoryDir(t)
	wants(t, "restore", state.Restore(d.dir+"/ledger", &backup, slog.New(slog.DiscardHandler)), nil)
	d.open()
	defer func() { d.close(); d.gone = true }() // before its directory goes
	sure("of the backup", 9e6)
	if b, err := d.GetBurst(alice, &pb.GetBurstRequest{Name: "llama"}); err != nil || !strings.Contains(b.GetRecord(), r.ID) {
		t.Errorf("%v, %v", b, err)
	}
}

// TestChargedAndFollowed: what runs by the hour is charged while nobody works on a burst, and what is saved comes home when it is time.
func TestChargedAndFollowed(t *testing.T) {
	d := burstDesk(t)
	alice := as("alice", 1001)
	l := d.ledBurst(alice, pb.BurstStep_BURST_STEP_UP, llama, "")
	r := recordOfText(t, llama, d.wall)
	r.Paid = []burst.Paid{{What: "fs-1", Rate: pricing.FSxScratch2, Bytes: 1200 << 30, Until: d.wall}}
	for _, state := range []burst.State{burst.Declared, burst.Staging, burst.Ready} {
		if r.State = state; state == burst.Ready {
			r.Ready = d.wall
		}
		wants(t, string(state), d.keeps(l, r), nil)
	}
	_, err := d.spends(l, agentv1.SpendKind_SPEND_KIND_RESERVE, r.ID, 10*pricing.Dollar, "a")
	wants(t, "reserve", err, nil)
	_, err = d.FollowBurst(alice, &pb.FollowBurstRequest{Name: "llama"})
	wants(t, "follow", err, nil)
	d.pass(time.Hour)
	wants(t, "charged while a task works on it", d.Charge(context.Background()), nil)
	spent := func() int64 {
		t.Helper()
		all := must.Get(d.GetAccounts(alice, &pb.GetAccountsRequest{Teams: []string{"vision"}}))(t)
		return all.GetAccounts()[0].GetSpentMicros()
	}
	if spent() != 0 {
		t.Errorf("%d was charged beside the task that works on it", spent())
	}
	wants(t, "the end of the task", d.finish(l.GetTask().GetId(), 0, nil), nil)
	wants(t, "charge", d.Charge(context.Background()), nil)
	hour := spent()
	if hour < 100_000 || hour > 400_000 { // 1,200 GiB at $0.14 for a GB and a month
		t.Errorf("an hour of 1,200 GiB is %v", pricing.Money(hour))
	}
	wants(t, "again at once", d.Charge(context.Background()), nil)
	if spent() != hour {
		t.Errorf("%d, and then %d", hour, spent())
	}

	sync := func() (found []*pb.Task) {
		t.Helper()
		wants(t, "follow", d.BringHome(context.Background()), nil)
		list := must.Get(d.ListTasks(alice, &pb.ListTasksRequest{Labels: map[string]string{"burst": "llama"}, States: []pb.TaskState{task.Queued}}))(t)
		return slices.DeleteFunc(list.GetTasks(), func(t *pb.Task) bool { return t.GetSpec().GetBurst().GetStep() != pb.BurstStep_BURST_STEP_SYNC_BACK })
	}
	if all := sync(); len(all) != 1 || all[0].GetOwner().GetName() != "alice" || all[0].GetSpec().GetClass() != pb.TaskClass_TASK_CLASS_CHECKPOINT {
		t.Fatalf("%v", all)
	}
	d.pass(10 * time.Minute)
	if all := sync(); len(all) != 1 {
		t.Errorf("before it is time: %d", len(all))
	}
	d.pass(30 * time.Minute)
	if all := sync(); len(all) != 1 {
		t.Errorf("while one is there: %d", len(all))
	}
	wants(t, "cancel", second(d.CancelTask(alice, &pb.CancelTaskRequest{Id: sync()[0].GetId()})), nil)
	d.pass(31 * time.Minute)
	if all := sync(); len(all) != 1 {
		t.Errorf("when it is time: %d", len(all))
	}
	known, err := d.FollowBurst(alice, &pb.FollowBurstRequest{Name: "llama", Off: true})
	if err != nil || known.GetFollower() != nil {
		t.Errorf("%v, %v", known, err)
	}
	wants(t, "cancel", second(d.CancelTask(alice, &pb.CancelTaskRequest{Id: sync()[0].GetId()})), nil)
	d.pass(time.Hour)
	if all := sync(); len(all) != 0 {
		t.Errorf("nobody wants it any more: %d", len(all))
	}
}

// TestLeasesOnABurst: who holds what is in its bucket or something that has it, or says so by a label, needs it.
//
//safety:aws leases on what is in the bucket of a burst, on what that lies in, and by a label: each holds it
func TestLeasesOnABurst(t *testing.T) {
	d := burstDesk(t)
	wants(t, "leases", d.ledger.Update(context.Background(), state.Soon, func(tx *state.Tx) error {
		return errors.Join(
			state.Leases.Put(tx, &pb.Lease{Id: "1", Dataset: "words", Digest: "d", Tier: "archive", Location: "archive:bursts/llama/words", Holder: "slurm:7"}),
			state.Leases.Put(tx, &pb.Lease{Id: "2", Dataset: "words", Digest: "e", Tier: "archive", Location: "archive:bursts/llama2/words", Holder: "slurm:8"}),
			state.Leases.Put(tx, &pb.Lease{Id: "3", Dataset: "words", Digest: "f", Tier: "project", Location: "project:words", Holder: "slurm:9", Owner: &pb.Account{Name: "bob", Uid: 1002}, Labels: map[string]string{"burst": "llama"}}),
			state.Leases.Put(tx, &pb.Lease{Id: "4", Dataset: "bursts", Digest: "f", Tier: "archive", Location: "archive:bursts", Holder: "alice"}))
	}), nil)
	l := d.ledBurst(as("alice", 1001), pb.BurstStep_BURST_STEP_UP, llama, "")
	if holders := d.holders(l); !slices.Equal(holders, []string{"alice (lease 4 of #0)", "slurm:7 (lease 1 of #0)", "slurm:9 (lease 3 of bob)"}) {
		t.Errorf("%q", holders)
	}
}

// holders are those that the lead of a task of a burst is told to need the burst.
func (d *desk) holders(l *agentv1.Lead) []string {
	d.t.Helper()
	id := l.GetTask().GetId()
	known, err := d.ReadBurst(asAgent(d.led[id]), &agentv1.ReadBurstRequest{Task: id, Epoch: l.GetEpoch()})
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	return known.GetLeases()
}

// TestLabelOfABurst: a label keeps a burst and its costs, so that accounts outside of its team can not set it, nor keep a later burst by the label of one that has ended.
func TestLabelOfABurst(t *testing.T) {
	d := burstDesk(t)
	alice, carol := as("alice", 1001), as("carol", 1003)
	l := d.ledBurst(alice, pb.BurstStep_BURST_STEP_UP, llama, "")
	wants(t, "kept", d.keeps(l, recordOfText(t, llama, d.wall)), nil)
	for _, one := range []struct {
		what   string
		caller context.Context
		name   string
		kind   error
	}{
		{"outside of the team", carol, "llama", mover.ErrNotExist},
		{"no burst of that name", alice, "other", mover.ErrNotExist},
	} {
		labels := map[string]string{"burst": one.name}
		_, lease := d.datasets.AcquireLease(one.caller, &pb.AcquireLeaseRequest{Dataset: "words", Tier: "project", Ttl: durationpb.New(time.Hour), Labels: labels})
		_, stage := d.datasets.Stage(one.caller, &pb.StageRequest{Source: "dataset:words", Tier: "project", LeaseTtl: durationpb.New(time.Hour), Labels: labels})
		for what, err := range map[string]error{"lease": lease, "stage": stage} {
			if wants(t, what+", "+one.what, err, one.kind); !strings.Contains(err.Error(), "the label burst of a lease") {
				t.Errorf("%s, %s: %v", what, one.what, err)
			}
		}
	}
	wants(t, "of the team", d.MayLabel(authz.From(alice), map[string]string{"burst": "llama"}), nil)
	wants(t, "an operator", d.MayLabel(authz.From(root), map[string]string{"burst": "llama"}), nil)
	for at, count := range map[time.Time]int{d.wall: 1, d.wall.Add(-time.Second): 0} {
		put := &pb.Lease{Id: "1", Dataset: "words", Digest: "f", Tier: "project", Location: "project:words", Holder: "slurm:9", Labels: map[string]string{"burst": "llama"}, CreateTime: timestamppb.New(at)}
		wants(t, "lease", d.ledger.Update(context.Background(), state.Soon, func(tx *state.Tx) error { return state.Leases.Put(tx, put) }), nil)
		if holders := d.holders(l); len(holders) != count {
			t.Errorf("a lease of %v is one of %q", at, holders)
		}
	}
}

// TestLimitsOfBursts: what is sent is written to the bucket, and what comes home is read there. A limit of one direction holds the right one.
//
//safety:aws limits of one direction, and by the hour of the week: the direction in which a burst moves is held
func TestLimitsOfBursts(t *testing.T) {
	d := burstDesk(t)
	alice := as("alice", 1001)
	moves := func(step pb.BurstStep, text, name string) (all []fairshare.Direction) {
		task, err := d.apply(alice, step, text, name)
		wants(t, step.String(), err, nil)
		for _, endpoint := range []string{"archive", "project"} {
			for _, write := range []bool{false, true} {
				if one := (fairshare.Direction{Endpoint: endpoint, Write: write}); uses(task.GetSpec(), one) {
					all = append(all, one)
				}
			}
		}
		return all
	}
	if all := moves(pb.BurstStep_BURST_STEP_UP, llama, ""); !slices.Equal(all, []fairshare.Direction{{Endpoint: "archive", Write: true}, {Endpoint: "project"}}) {
		t.Errorf("up: %v", all)
	}
	d.give()
	for _, l := range d.taken {
		wants(t, "kept", d.keeps(l, recordOfText(t, llama, d.wall)), nil)
	}
	for _, step := range []pb.BurstStep{pb.BurstStep_BURST_STEP_SYNC_BACK, pb.BurstStep_BURST_STEP_DOWN} {
		if all := moves(step, "", "llama"); !slices.Equal(all, []fairshare.Direction{{Endpoint: "archive"}, {Endpoint: "project", Write: true}}) {
			t.Errorf("%v: %v", step, all)
		}
	}
}

// TestPagesOfBursts: all of them come, once, the oldest first.
func TestPagesOfBursts(t *testing.T) {
	d := burstDesk(t)
	alice := as("alice", 1001)
	var names []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		text := strings.Replace(llama, "{name: llama}", "{name: "+name+"}", 1)
		l := d.ledBurst(alice, pb.BurstStep_BURST_STEP_UP, text, "")
		wants(t, name, d.keeps(l, recordOfText(t, text, d.wall)), nil)
		names = append(names, name)
		d.pass(time.Second)
	}
	var found []string
	for r := (&pb.ListBurstsRequest{PageSize: 2}); ; {
		page, err := d.ListBursts(alice, r)
		if err != nil || len(page.GetBursts()) > 2 {
			t.Fatalf("%v, %v", page, err)
		}
		for _, b := range page.GetBursts() {
			found = append(found, b.GetName())
		}
		if r.PageToken = page.GetNextPageToken(); r.PageToken == "" {
			break
		}
	}
	if !slices.Equal(found, names) {
		t.Errorf("%q, want %q", found, names)
	}
	wants(t, "a strange token", second(d.ListBursts(alice, &pb.ListBurstsRequest{PageToken: "x"})), mover.ErrUsage)
}
