package cli

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/aws"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst"
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
// one fail from now on, or no more; aws record BURST FILE writes its record; aws hold OPERATION has calls of that wait, until aws release OPERATION.
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
		ts.Fatalf("usage: aws write burst name [text] | fails burst name [code] | record burst file | hold operation | release operation, where there is a stand-in for AWS")
	case args[0] == "write":
		f := aws.File{Name: args[2], Body: []byte(strings.Join(args[3:], " ") + "\n"), Mode: 0o644}
		if name, is := strings.CutSuffix(args[2], "/"); is {
			f = aws.File{Name: name, Mode: aws.TypeDir | 0o755}
		}
		server.FileSystem(systemOf(ts, args[1])).Write(f)
	case args[0] == "bills": // of three days ago
		server.AddCost(aws.Cost{Day: time.Now().UTC().AddDate(0, 0, -3), USD: args[2], Service: "Amazon FSx", Region: "us-east-1", Tags: map[string]string{burst.TagBurst: recordIn(ts, args[1]).ID}})
	case args[0] == "record": // as a version without a service kept it
		text, err := json.MarshalIndent(recordIn(ts, args[1]), "", "  ")
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[2]), text, 0o600))
	case args[0] == "fails":
		server.FileSystem(systemOf(ts, args[1])).FailExport(args[2], strings.Join(args[3:], ""))
	default:
		ts.Fatalf("aws %q is nothing", args)
	}
}

// held are what has calls go on that wait, by the folders of scripts and operations.
var held sync.Map

// systemOf is the file system of a burst, as its service knows it.
func systemOf(ts *testscript.TestScript, name string) string {
	r := recordIn(ts, name)
	if r.FileSystem == nil {
		ts.Fatalf("burst %s has no file system", name)
	}
	return r.FileSystem.ID
}

// recordIn is the record of a burst, as the service of a script has it.
func recordIn(ts *testscript.TestScript, name string) *burst.Record {
	c, err := api.Dial(context.Background(), ts.Getenv("DATAMOVE_SERVICE"), api.Options{})
	ts.Check(err)
	defer c.Close()
	known, err := c.GetBurst(context.Background(), &pb.GetBurstRequest{Name: name})
	ts.Check(err)
	r := &burst.Record{}
	ts.Check(json.Unmarshal([]byte(known.GetRecord()), r))
	return r
}

// TestForAccounts runs test/e2e-aws, which is for a person with an account, with a stand-in for AWS: so that it works when somebody has one.
func TestForAccounts(t *testing.T) {
	store := s3test.Start(t, false)
	server := aws.New(aws.Options{Store: &aws.Store{Endpoint: store.Endpoint, Access: store.Access, Secret: store.Secret}, Lasts: aws.Lasts{Create: 1, Delete: 1, Link: 1, Pending: 1, Executing: 1}})
	must.Do(t, server.AddKey("datamove", store.Access, store.Secret, ""))
	url := server.Start(t)
	command := exec.Command("bash", "../../e2e-aws")
	command.Env = append(os.Environ(), "DATAMOVE=datamove", "DATAMOVED=datamoved", "E2E_AWS_BUCKET="+store.Bucket, "E2E_AWS_REGION=us-east-1", "E2E_AWS_SUBNET=subnet-0123456789abcdef0", "E2E_AWS_SETTLE=0s", "HOME="+t.TempDir(),
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
