package agent

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/test/must"
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
	access := must.Get(new(Agent).access("cold", config.Tier{Level: "cold", S3: s}, ""))(t)
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

// TestFeedReach: the process that tells of changes in a tier reaches the change log of its file system, if the tier has no other feed; no other process does.
func TestFeedReach(t *testing.T) {
	a := &Agent{o: Options{
		Config: func() *config.Config {
			return &config.Config{Tiers: map[string]config.Tier{
				"logged": {Path: "/lustre/logged", Feed: "changelog"}, "untold": {Path: "/lustre/untold"}, "watched": {Path: "/lustre/watched", Feed: "inotify"},
			}}
		},
		FeedReach: func(dir string) sandbox.Confinement {
			return sandbox.Confinement{List: []string{dir}, Devices: []string{"/dev/changelog"}, Read: []string{"more"}, Write: []string{"more"}}
		},
	}}
	follow, scan := pb.TaskKind_TASK_KIND_FOLLOW, pb.TaskKind_TASK_KIND_SCAN
	for _, row := range []struct {
		tier string
		kind pb.TaskKind
		list string // "" is none, and no device
	}{
		{"logged", follow, "/lustre/logged"},
		{"untold", follow, "/lustre/untold"}, // the coordinator may know of it
		{"watched", follow, ""},
		{"logged", scan, ""},
	} {
		p := &process{job: &agentv1.Job{StateDir: "/state", Spec: &pb.TaskSpec{Kind: row.kind, Source: row.tier + ":"}}}
		got, err := a.prepare(p, osaccount.Account{})
		want := sandbox.Confinement{Read: []string{"/lustre/" + row.tier}, Write: []string{"/state"}}
		if row.list != "" {
			want.List, want.Devices = []string{row.list}, []string{"/dev/changelog"}
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v of %s reaches %+v, want %+v, %v", row.kind, row.tier, got, want, err)
		}
	}
}

// TestBelieve: what sources say of rights is asked for where this node trusts all of them, and not for a target or for one beside it.
func TestBelieve(t *testing.T) {
	a := &Agent{o: Options{Config: func() *config.Config {
		return &config.Config{Tiers: map[string]config.Tier{"own": {S3: &config.S3{Trusted: true}}, "shared": {S3: &config.S3{}}, "fast": {Path: "/fast"}}}
	}}}
	for what, row := range map[string]struct {
		spec *pb.TaskSpec
		want bool
	}{
		"trusted":            {&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "own:a", Target: "fast:a"}, true},
		"not trusted":        {&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "shared:a", Target: "fast:a"}, false},
		"a trusted target":   {&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "fast:a", Target: "own:a"}, false},
		"one beside it":      {&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Sources: []string{"own:a", "shared:b"}, Target: "fast:a"}, false},
		"a path beside it":   {&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Sources: []string{"own:a", "/data"}, Target: "fast:a"}, true},
		"a bucket by itself": {&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Sources: []string{"own:a", "s3://own/a"}, Target: "fast:a"}, false},
		"some facts":         {&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "own:a", Target: "fast:a", Options: &pb.Options{Preserve: []string{"mode"}}}, true},
	} {
		before := len(row.spec.GetOptions().GetPreserve())
		a.believe(row.spec)
		preserve := row.spec.GetOptions().GetPreserve()
		if slices.Contains(preserve, "privileges") != row.want || before == 1 && len(preserve) != 2 || row.want && !slices.Contains(preserve, "mode") {
			t.Errorf("%s: %q", what, preserve)
		}
	}
}

// What the AWS environment of the agent says of a tier is said to the process, which may have another one: where AWS is, its region, and the keys of a profile.
func TestAccessOfAProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte("[default]\nregion = eu-west-1\n[profile site]\nregion = site-1\nendpoint_url = https://s3.site\n"+
		"aws_access_key_id = access\naws_secret_access_key = secret\naws_session_token = token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": file, "AWS_SHARED_CREDENTIALS_FILE": file + ".none", "AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_ACCESS_KEY_ID": "",
		"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_CA_BUNDLE": "",
	} {
		t.Setenv(name, value)
	}
	const keys = "AWS_ACCESS_KEY_ID=access\nAWS_SECRET_ACCESS_KEY=secret\nAWS_SESSION_TOKEN=token\n"
	for _, row := range []struct {
		tier                   config.S3
		endpoint, region, keys string
	}{
		{config.S3{Credentials: "profile:site"}, "https://s3.site", "site-1", keys},
		{config.S3{Credentials: "profile:site", Endpoint: "https://other.site", Region: "other-1"}, "https://other.site", "other-1", keys},
		{config.S3{}, "", "eu-west-1", ""},
		{config.S3{Region: "us-east-2", Credentials: "anonymous"}, "", "us-east-2", ""},
	} {
		got, err := new(Agent).access("cold", config.Tier{Level: "cold", S3: &row.tier}, "")
		if err != nil || got.GetEndpoint() != row.endpoint || got.GetRegion() != row.region || got.GetKeys() != row.keys {
			t.Errorf("%+v: %v, %v", row.tier, got, err)
		}
	}
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	authority := file + ".pem"
	must.Do(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	must.Do(t, os.WriteFile(file, []byte("[profile site]\naws_access_key_id = a\naws_secret_access_key = s\nca_bundle = "+authority+"\n"), 0o600))
	if got, err := new(Agent).access("cold", config.Tier{Level: "cold", S3: &config.S3{Credentials: "profile:site"}}, ""); got.GetCa() != authority || err != nil {
		t.Errorf("it trusts %q, %v", got.GetCa(), err)
	}
	if _, err := new(Agent).access("cold", config.Tier{Level: "cold", S3: &config.S3{Credentials: "profile:none"}}, ""); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), "none") {
		t.Errorf("a profile that is not there: %v", err)
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
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
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
	bundle := "/etc/passwd" // all can read it
	for _, kv := range []string{"AWS_ENDPOINT_URL_FSX=http://fsx.site", "HTTPS_PROXY=http://proxy.site:3128", "AWS_CA_BUNDLE=" + bundle, "no_proxy=s3.site"} {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	t.Setenv("HTTP_PROXY", "http://datamove:secret@proxy.site:3128")
	for uid, want := range map[uint32]bool{uint32(os.Geteuid()): true, uint32(os.Geteuid()) + 1: false} {
		env := new(Agent).environment(osaccount.Account{UID: uid})
		for kv, want := range map[string]bool{
			"AWS_ENDPOINT_URL_FSX=http://fsx.site": true, "HTTPS_PROXY=http://proxy.site:3128": true, "AWS_CA_BUNDLE=" + bundle: true, "no_proxy=s3.site": true,
			"AWS_SECRET_ACCESS_KEY=secret": want, "HTTP_PROXY=http://datamove:secret@proxy.site:3128": want,
		} {
			if slices.Contains(env, kv) != want {
				t.Errorf("uid %d, %s: %q", uid, kv, env)
			}
		}
	}
}

// What comes home of a burst is read from its bucket, and what goes there is written: the limits of that direction hold it.
//
//safety:aws with mover/coordinator TestLimitsOfBursts
func TestEndsOfBursts(t *testing.T) {
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_BURST, Target: "aws:bursts/llama", Sources: []string{"project:data"}, Burst: &pb.BurstWork{Step: pb.BurstStep_BURST_STEP_UP}}
	if all := ends(spec); !slices.Contains(all, end{"aws:bursts/llama", true}) || !slices.Contains(all, end{"project:data", false}) {
		t.Errorf("up: %v", all)
	}
	spec.Sources, spec.Burst = nil, &pb.BurstWork{Step: pb.BurstStep_BURST_STEP_SYNC_BACK, Homes: []string{"project:runs"}}
	if all := ends(spec); !slices.Contains(all, end{"aws:bursts/llama", false}) || !slices.Contains(all, end{"project:runs", true}) {
		t.Errorf("sync-back: %v", all)
	}
	spec.Burst = &pb.BurstWork{Step: pb.BurstStep_BURST_STEP_COSTS, Days: 3}
	if all := ends(spec); !slices.Contains(all, end{"aws:bursts/llama", false}) {
		t.Errorf("costs: %v", all)
	}
}

// A process of somebody else reaches no file that is ours alone, which it could not even be confined to: the configuration of AWS, its keys, and authorities
// that not everybody may read.
func TestFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	private := filepath.Join(dir, "private.pem")
	must.Do(t, os.WriteFile(private, nil, 0o600))
	t.Setenv("HOME", dir)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	for bundle, want := range map[string][]string{"/etc/passwd": {"/etc/passwd"}, private: nil, filepath.Join(dir, "none"): nil, "": nil, "relative": nil} {
		t.Setenv("AWS_CA_BUNDLE", bundle)
		if got := amazonFiles(false); !slices.Equal(got, want) {
			t.Errorf("%q: others may read %q", bundle, got)
		}
		if slices.Contains(new(Agent).environment(osaccount.Account{UID: uint32(os.Geteuid()) + 1}), "AWS_CA_BUNDLE="+bundle) != (want != nil) {
			t.Errorf("%q in the environment of others", bundle)
		}
		if got := amazonFiles(true); !slices.Contains(got, filepath.Join(dir, "config")) || !slices.Contains(got, filepath.Join(dir, ".aws", "credentials")) {
			t.Errorf("ours: %q", got)
		}
	}
}

// TestKeptApart: what lets a user in to replicas of others is told by a process that no other process of the user comes near.
//
//safety:7 with mover/agent/sandbox TestApart
func TestKeptApart(t *testing.T) {
	probe, stage := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_LOOK}, &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_STAGE}
	root := os.Geteuid() == 0
	for _, row := range []struct {
		spec *pb.TaskSpec
		uid  uint32
		want bool
	}{{probe, 54001, root}, {probe, 0, false}, {stage, 54001, false}} {
		if got := keptApart(row.spec, osaccount.Account{UID: row.uid}, sandbox.Confinement{Read: []string{t.TempDir()}}); got != row.want {
			t.Errorf("%v by %d: %v", row.spec.GetKind(), row.uid, got)
		}
	}
}

// TestLinkRoots: links of a source lead into the roots of its project; without any, anywhere but to other processes and devices.
func TestLinkRoots(t *testing.T) {
	a := &Agent{o: Options{Config: func() *config.Config { return &config.Config{} }}}
	read := func(follow bool, roots ...string) []string {
		spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/data/a", Target: "/b", Options: &pb.Options{Follow: follow}}
		return must.Get(a.prepare(&process{agent: a, job: a.job("t", spec, roots)}, osaccount.Account{}))(t).Read
	}
	if got := read(false); !slices.Equal(got, []string{"/data/a"}) {
		t.Errorf("without -L: %v", got)
	}
	if got := read(true, "/data"); !slices.Equal(got, []string{"/data/a", "/data"}) {
		t.Errorf("in a project: %v", got)
	}
	if got := read(true); !slices.Contains(got, "/usr") || slices.Contains(got, "/") || slices.Contains(got, "/proc") {
		t.Errorf("without projects: %v", got)
	}
}
