package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/aws"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/shelf"
)

// awsKey is where a script has its stand-in for AWS.
type awsKey struct{}

// standsIn begins a stand-in for AWS for a script, in which everything takes no time, and whose S3 is a real store: the bucket $BUCKET at $STORE, with the key $KEY and $SECRET.
func standsIn(env *testscript.Env, store *s3test.Server) {
	server := aws.New(aws.Options{Store: &aws.Store{Endpoint: store.Endpoint, Access: store.Access, Secret: store.Secret}, Lasts: aws.Lasts{Create: 1, Delete: 1, Link: 1, Pending: 1, Executing: 1}})
	listening := httptest.NewServer(server)
	env.Defer(listening.Close)
	for _, service := range []string{"FSX", "STS", "EC2", "CLOUDWATCH", "COST_EXPLORER"} {
		env.Setenv("AWS_ENDPOINT_URL_"+service, listening.URL)
	}
	env.Setenv("AWS_CA_BUNDLE", "")
	env.Setenv("STORE", store.Endpoint)
	env.Setenv("BUCKET", store.Bucket)
	env.Setenv("KEY", store.Access)
	env.Setenv("SECRET", store.Secret)
	if err := server.AddKey("datamove", store.Access, store.Secret, ""); err != nil {
		env.T().Fatal(err)
	}
	env.Values[awsKey{}] = server
}

// inAWS is a command of scripts: aws write BURST NAME [TEXT] has a job write a file on the file system of a burst, or make a directory where the name ends in a slash; aws fails BURST NAME [CODE] has the export of
// one fail from now on, or no more; aws hold OPERATION has calls of that wait, until aws release OPERATION.
func inAWS(ts *testscript.TestScript, negated bool, args []string) {
	server, is := ts.Value(awsKey{}).(*aws.Server)
	switch {
	case is && !negated && len(args) == 2 && args[0] == "hold":
		release := server.Hold(args[1])
		ts.Defer(release)
		held.Store(ts.Getenv("WORK")+args[1], release)
	case is && !negated && len(args) == 2 && args[0] == "release":
		release, is := held.Load(ts.Getenv("WORK") + args[1])
		if !is {
			ts.Fatalf("nothing is held")
		}
		release.(func())()
	case negated || !is || len(args) < 3:
		ts.Fatalf("usage: aws write burst name [text] | fails burst name [code] | hold operation | release operation, where there is a stand-in for AWS")
	case args[0] == "write":
		f := aws.File{Name: args[2], Body: []byte(strings.Join(args[3:], " ") + "\n"), Mode: 0o644}
		if name, is := strings.CutSuffix(args[2], "/"); is {
			f = aws.File{Name: name, Mode: aws.TypeDir | 0o755}
		}
		server.FileSystem(systemOf(ts, args[1])).Write(f)
	case args[0] == "bills": // of three days ago
		server.AddCost(aws.Cost{Day: time.Now().UTC().AddDate(0, 0, -3), USD: args[2], Service: "Amazon FSx", Region: "us-east-1", Tags: map[string]string{burst.TagBurst: recordIn(ts, args[1]).ID}})
	case args[0] == "fails":
		server.FileSystem(systemOf(ts, args[1])).FailExport(args[2], strings.Join(args[3:], ""))
	default:
		ts.Fatalf("aws %q is nothing", args)
	}
}

// held are what has calls go on that wait, by the folders of scripts and operations.
var held sync.Map

// systemOf is the file system of a burst, as its service knows it, or as it is on the shelf of the script.
func systemOf(ts *testscript.TestScript, name string) string {
	r := recordIn(ts, name)
	if r.FileSystem == nil {
		ts.Fatalf("burst %s has no file system", name)
	}
	return r.FileSystem.ID
}

// recordIn is the record of a burst in a script: that of the service, or that on the shelf.
func recordIn(ts *testscript.TestScript, name string) *burst.Record {
	if at := ts.Getenv("DATAMOVE_SERVICE"); at != "" {
		c, err := api.Dial(context.Background(), at, api.Options{})
		ts.Check(err)
		defer c.Close()
		known, err := c.GetBurst(context.Background(), &pb.GetBurstRequest{Name: name})
		ts.Check(err)
		r := &burst.Record{}
		ts.Check(json.Unmarshal([]byte(known.GetRecord()), r))
		return r
	}
	s, err := shelf.Open(filepath.Join(ts.Getenv("HOME"), ".local", "state", "datamove", "burst"))
	ts.Check(err)
	all, err := s.All()
	ts.Check(err)
	r, err := shelf.Newest(all, burst.Name(name))
	ts.Check(err)
	return r
}

// deadly has a command die by kill -9 at a request of its own: before that arrives, when it has been carried out and is not answered, or
// a little after the answer.
type deadly struct {
	mu      sync.Mutex
	command *os.Process // guarded by mu, as all below
	nth     int         // the request at which it dies, from 1 on
	way     int         // in which it does, of three
	asked   int
}

// start starts a command that dies at its nth request.
func (d *deadly) start(t *testing.T, command *exec.Cmd, nth, way int) {
	t.Helper()
	d.mu.Lock() // no request is looked at before the process is known
	defer d.mu.Unlock()
	must.Do(t, command.Start())
	d.command, d.nth, d.way, d.asked = command.Process, nth, way, 0
}

// at is the fault of a proxy.
func (d *deadly) at(w http.ResponseWriter, r *http.Request, next http.Handler) {
	d.mu.Lock()
	d.asked++
	command, dies, way := d.command, d.asked == d.nth, d.way
	d.mu.Unlock()
	switch {
	case dies && way == 0:
		_ = command.Kill()
		panic(http.ErrAbortHandler)
	case dies && way == 1:
		next.ServeHTTP(httptest.NewRecorder(), r)
		_ = command.Kill()
		panic(http.ErrAbortHandler)
	case dies:
		next.ServeHTTP(w, r)
		_ = http.NewResponseController(w).Flush() // it may have the answer by now
		_ = command.Kill()
		return
	}
	next.ServeHTTP(w, r)
}

// TestBurstKilled: kill -9 at one request after the other makes nothing twice and forgets nothing; and money is reserved once.
//
//safety:aws with tiering/burst/lifecycle TestDies
func TestBurstKilled(t *testing.T) {
	store := s3test.Start(t, false)
	var killer deadly
	dir := t.TempDir()
	server := aws.New(aws.Options{Store: &aws.Store{Endpoint: store.Endpoint, Access: store.Access, Secret: store.Secret}, Lasts: aws.Lasts{Create: 1, Delete: 1, Link: 1, Pending: 1, Executing: 1}})
	must.Do(t, server.AddKey("datamove", store.Access, store.Secret, ""))
	account, bucket := rig.NewProxy(t, server.Start(t)), rig.NewProxy(t, store.Endpoint)
	account.Set(killer.at)
	bucket.Set(killer.at)
	file := func(name, text string) string {
		t.Helper()
		at := filepath.Join(dir, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)))
		return at
	}
	keys := file("keys.env", "AWS_ACCESS_KEY_ID="+store.Access+"\nAWS_SECRET_ACCESS_KEY="+store.Secret+"\n")
	conf := file("config.yaml", fmt.Sprintf(`tiers:
  project: {level: warm, path: %s/project}
  cloud: {level: cold, s3: {endpoint: %q, bucket: %s, region: us-east-1, credentials: "file:%s"}}
burst: {accounts: {vision: {cap: "$200"}}}
`, dir, bucket.URL, store.Bucket, keys))
	declared := file("burst.yaml", `kind: Burst
metadata: {name: killed}
spec:
  team: vision
  job: {kind: training, gpus: 64, noneHere: true}
  cloud: {tier: cloud, region: us-east-1, fileSystem: {type: SCRATCH_2, subnet: subnet-0123456789abcdef0}}
  link: {kind: vpn, rate: 1Gbit/s}
  lasts: 30h
  data: [{from: "project:a", to: a}]
  results: [{path: results, home: "project:results"}]
`)
	for i := range 40 {
		file(fmt.Sprintf("project/a/%02d", i), strings.Repeat("x", 1<<18))
	}
	environment := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "DATAMOVE_CONFIG=" + conf, "AWS_EC2_METADATA_DISABLED=true"}
	for _, service := range []string{"FSX", "STS", "EC2", "CLOUDWATCH", "COST_EXPLORER"} {
		environment = append(environment, "AWS_ENDPOINT_URL_"+service+"="+account.URL)
	}
	kills := 0
	for nth := 1; ; nth += 1 + nth/4 {
		command := exec.Command("datamove", "burst", "up", declared)
		var said strings.Builder
		command.Env, command.Stderr = environment, &said
		killer.start(t, command, nth, kills%3)
		if err := command.Wait(); err == nil {
			break
		} else if command.ProcessState.Exited() {
			t.Fatalf("after %d kills it fails by itself: %v\n%s", kills, err, said.String())
		}
		kills++
	}
	made := map[string]map[string]bool{}
	for _, call := range server.Log() {
		if call.Token != "" && call.Code == "" {
			if made[call.Operation] == nil {
				made[call.Operation] = map[string]bool{}
			}
			made[call.Operation][call.Token] = true
		}
	}
	for _, operation := range []string{"CreateFileSystem", "CreateDataRepositoryAssociation", "CreateDataRepositoryTask"} {
		if len(made[operation]) != 1 {
			t.Errorf("after %d kills %s was asked for by %d tokens", kills, operation, len(made[operation]))
		}
	}
	ledger, err := os.ReadFile(filepath.Join(dir, ".local", "state", "datamove", "burst", "budget.jsonl"))
	if n := strings.Count(string(ledger), `"kind":"reserve"`); err != nil || n != 1 {
		t.Errorf("after %d kills money was reserved %d times, %v", kills, n, err)
	}
	if kills < 10 {
		t.Errorf("it was killed %d times only", kills)
	}
	t.Logf("%d kills", kills)
}

// TestForAccounts runs test/e2e-aws, which is for a person with an account, with a stand-in for AWS: so that it works when somebody has one.
func TestForAccounts(t *testing.T) {
	store := s3test.Start(t, false)
	server := aws.New(aws.Options{Store: &aws.Store{Endpoint: store.Endpoint, Access: store.Access, Secret: store.Secret}, Lasts: aws.Lasts{Create: 1, Delete: 1, Link: 1, Pending: 1, Executing: 1}})
	must.Do(t, server.AddKey("datamove", store.Access, store.Secret, ""))
	url := server.Start(t)
	command := exec.Command("bash", "../../e2e-aws")
	command.Env = append(os.Environ(), "DATAMOVE=datamove", "E2E_AWS_BUCKET="+store.Bucket, "E2E_AWS_REGION=us-east-1", "E2E_AWS_SUBNET=subnet-0123456789abcdef0", "E2E_AWS_SETTLE=0s", "HOME="+t.TempDir(),
		"E2E_AWS_ENDPOINT="+store.Endpoint, "AWS_ACCESS_KEY_ID="+store.Access, "AWS_SECRET_ACCESS_KEY="+store.Secret, "AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_EC2_METADATA_DISABLED=true")
	for _, service := range []string{"FSX", "STS", "EC2", "CLOUDWATCH", "COST_EXPLORER"} {
		command.Env = append(command.Env, "AWS_ENDPOINT_URL_"+service+"="+url)
	}
	said, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "e2e-aws: passed") || strings.Contains(string(said), "LOOK FOR THE TAG") {
		t.Errorf("%v:\n%s", err, said)
	}
	if n := server.Calls("DeleteFileSystem"); n != 1 {
		t.Errorf("%d file systems were deleted", n)
	}
}
