package agent

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/account"
	"datamove.dev/mover/config"
)

// All that a tier says of a bucket goes to the process that opens it: what were left out
// would be as if it had not been asked for.
func TestAccessHasAll(t *testing.T) {
	s := &config.S3{PathStyle: new(true)}
	v := reflect.ValueOf(s).Elem()
	want := map[string]bool{}
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.String {
			name := v.Type().Field(i).Name
			v.Field(i).SetString("of " + name)
			want["of "+name] = true
		}
	}
	access, err := new(Agent).access("cold", config.Tier{Level: "cold", S3: s}, "")
	if err != nil {
		t.Fatal(err)
	}
	got := reflect.ValueOf(access).Elem()
	for i := range got.NumField() {
		if got.Field(i).Kind() == reflect.String {
			delete(want, got.Field(i).String())
		}
	}
	if len(want) > 0 || !access.GetPathStyle() || !access.GetPathStyleSet() || !access.GetS3() {
		t.Errorf("without %v: %v", want, access)
	}
}

// A process is told what the credentials of its tiers are now, and of no other ones.
func TestKeysOfTheJob(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.env")
	conf := &config.Config{Tiers: map[string]config.Tier{
		"cold": {Level: "cold", S3: &config.S3{Bucket: "abc", Credentials: "file:" + file}}, "other": {Level: "cold", S3: &config.S3{Bucket: "abd", Credentials: "file:" + file}},
		"warm": {Level: "warm", Path: "/warm"},
	}}
	p := &process{agent: &Agent{o: Options{Config: func() *config.Config { return conf }}}}
	p.job = &agentv1.Job{Tiers: []*agentv1.TierAccess{{Name: "cold", S3: true}, {Name: "warm"}, {Name: "gone", S3: true}}}
	for _, text := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := p.Keys(t.Context(), &agentv1.KeysRequest{Tier: "cold"}); err != nil || r.GetKeys() != text {
			t.Errorf("%q, %v; want %q", r.GetKeys(), err, text)
		}
	}
	for _, tier := range []string{"other", "warm", "gone", ""} {
		if r, err := p.Keys(t.Context(), &agentv1.KeysRequest{Tier: tier}); !errors.Is(err, mover.ErrPermission) {
			t.Errorf("of %q: %q, %v", tier, r.GetKeys(), err)
		}
	}
}

// A process of somebody else hears where the services of AWS are, and nothing of our keys.
func TestEnvironmentOfOthers(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_ENDPOINT_URL_FSX", "http://fsx.site")
	for uid, want := range map[uint32]bool{uint32(os.Geteuid()): true, uint32(os.Geteuid()) + 1: false} {
		env := new(Agent).environment(account.Account{UID: uid})
		if slices.Contains(env, "AWS_SECRET_ACCESS_KEY=secret") != want || !slices.Contains(env, "AWS_ENDPOINT_URL_FSX=http://fsx.site") {
			t.Errorf("uid %d: %q", uid, env)
		}
	}
}

// What comes home of a burst is read from its bucket, and what goes there is written: the limits of that direction hold it.
func TestEndsOfBursts(t *testing.T) {
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_BURST, Target: "aws:bursts/llama", Sources: []string{"project:data"}, Burst: &pb.BurstWork{Step: pb.BurstStep_BURST_STEP_UP}}
	if all := ends(spec); !slices.Contains(all, end{"aws:bursts/llama", true}) || !slices.Contains(all, end{"project:data", false}) {
		t.Errorf("up: %v", all)
	}
	spec.Sources, spec.Burst = nil, &pb.BurstWork{Step: pb.BurstStep_BURST_STEP_SYNC_BACK, Homes: []string{"project:runs"}}
	if all := ends(spec); !slices.Contains(all, end{"aws:bursts/llama", false}) || !slices.Contains(all, end{"project:runs", true}) {
		t.Errorf("sync-back: %v", all)
	}
}
