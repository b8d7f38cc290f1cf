package aws

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/seed"
)

// cli is Debian's aws with an environment of its own: nothing of the machine's configuration, proxies or certificates reaches it.
type cli struct {
	program, url, home string
	access, secret     string
	token              string
}

func needCLI(t *testing.T, s *Server) *cli {
	t.Helper()
	if !seed.Soak() {
		t.Skip("elsewhere: make soak: what aws does is Amazon's, and each of its calls takes a second of CPU")
	}
	const program = "/usr/bin/aws" // Debian's: newer ones speak CBOR with CloudWatch
	if _, err := os.Stat(program); err != nil {
		t.Skip("there is no awscli: test/setup installs it")
	}
	return &cli{program: program, url: s.Start(t), home: t.TempDir(), access: OwnerKey, secret: OwnerSecret}
}

// run calls it, and reads what it says; it fails with the code of an error.
func (c *cli) run(t *testing.T, line ...string) (reply map[string]any, code string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.program, append(line, "--endpoint-url", c.url, "--output", "json")...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "AWS_DEFAULT_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1", "AWS_PAGER=",
		"AWS_ACCESS_KEY_ID=" + c.access, "AWS_SECRET_ACCESS_KEY=" + c.secret}
	if c.token != "" {
		cmd.Env = append(cmd.Env, "AWS_SESSION_TOKEN="+c.token)
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		_, after, ok := strings.Cut(complaint.String(), "An error occurred (")
		if !ok {
			t.Fatalf("aws %s: %v: %s", strings.Join(line, " "), err, complaint.String())
		}
		code, _, _ = strings.Cut(after, ")")
		return nil, code
	}
	if len(out) > 0 {
		if err := json.Unmarshal(out, &reply); err != nil {
			t.Fatalf("aws %s: %v: %s", strings.Join(line, " "), err, out)
		}
	}
	return reply, ""
}

// find finds something in a reply: names of members, and numbers of those of a list.
func find(t *testing.T, reply any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := reply.(map[string]any)
			reply = m[s]
		case int:
			l, _ := reply.([]any)
			if s >= len(l) {
				t.Fatalf("there is no member %d in %v", s, l)
			}
			reply = l[s]
		}
	}
	return reply
}

func (c *cli) wants(t *testing.T, want any, path []any, line ...string) any {
	t.Helper()
	reply, code := c.run(t, line...)
	if code != "" {
		t.Fatalf("aws %s: %s", strings.Join(line, " "), code)
	}
	got := find(t, reply, path...)
	if want != nil && got != want {
		t.Errorf("aws %s: %v is %v, and not %v", strings.Join(line, " "), path, got, want)
	}
	return got
}

func to(steps ...any) []any { return steps }

func TestAnotherClientOfFSx(t *testing.T) {
	t.Parallel() // most of it is the start of Python
	now, o := NewClock(), newObjects()
	s := serve(t, Options{Now: now.Now, Store: o.store()})
	c := needCLI(t, s)
	id := c.wants(t, nil, to("FileSystem", "FileSystemId"), "fsx", "create-file-system", "--file-system-type", "LUSTRE", "--storage-capacity", "1200", "--subnet-ids", "subnet-0123456789abcdef0",
		"--lustre-configuration", "DeploymentType=PERSISTENT_2,PerUnitStorageThroughput=125,DataCompressionType=LZ4", "--client-request-token", "job-7", "--tags", "Key=team,Value=a").(string)
	c.wants(t, "CREATING", to("FileSystems", 0, "Lifecycle"), "fsx", "describe-file-systems", "--file-system-ids", id)
	now.Pass(5 * time.Minute)
	arn := c.wants(t, nil, to("FileSystems", 0, "ResourceARN"), "fsx", "describe-file-systems").(string)
	c.wants(t, nil, nil, "fsx", "tag-resource", "--resource-arn", arn, "--tags", "Key=until,Value=friday")
	c.wants(t, "friday", to("Tags", 1, "Value"), "fsx", "list-tags-for-resource", "--resource-arn", arn)
	link := c.wants(t, nil, to("Association", "AssociationId"), "fsx", "create-data-repository-association", "--file-system-id", id, "--file-system-path", "/ckpt", "--data-repository-path", "s3://cold/ckpt").(string)
	now.Pass(time.Minute)
	c.wants(t, "AVAILABLE", to("Associations", 0, "Lifecycle"), "fsx", "describe-data-repository-associations", "--filters", "Name=file-system-id,Values="+id)
	s.FileSystem(id).Write(File{Name: "ckpt/a", Body: []byte("a")})
	task := c.wants(t, nil, to("DataRepositoryTask", "TaskId"), "fsx", "create-data-repository-task", "--type", "EXPORT_TO_REPOSITORY", "--file-system-id", id, "--paths", "ckpt",
		"--report", "Enabled=true,Path=s3://cold/ckpt/reports,Format=REPORT_CSV_20191124,Scope=FAILED_FILES_ONLY").(string)
	if _, code := c.run(t, "fsx", "delete-file-system", "--file-system-id", id); code != "BadRequest" {
		t.Errorf("deleted while a task waits: %q", code)
	}
	now.Pass(2 * time.Minute)
	c.wants(t, "SUCCEEDED", to("DataRepositoryTasks", 0, "Lifecycle"), "fsx", "describe-data-repository-tasks", "--task-ids", task)
	if o.bodies["cold/ckpt/a"] != "a" {
		t.Errorf("the objects are %v", sorted(o.bodies))
	}
	c.wants(t, "DELETING", to("Lifecycle"), "fsx", "delete-data-repository-association", "--association-id", link)
	c.wants(t, "DELETING", to("Lifecycle"), "fsx", "delete-file-system", "--file-system-id", id)
	now.Pass(2 * time.Minute)
	if _, code := c.run(t, "fsx", "describe-file-systems", "--file-system-ids", id); code != "FileSystemNotFound" {
		t.Errorf("gone, it answers %q", code)
	}
}

func TestAnotherClientOfTheOthers(t *testing.T) {
	t.Parallel() // most of it is the start of Python
	now := NewClock()
	s := withRole(t, Options{Now: now.Now})
	s.AddInstance(Instance{ID: "i-00000000000000001", Type: "c5.large", Tags: map[string]string{"team": "a"}})
	s.AddDatum(Datum{"AWS/EC2", "CPUUtilization", map[string]string{"InstanceId": "i-00000000000000001"}, now.Now().Add(-time.Minute), 97.5})
	s.AddCost(Cost{Day: now.Now().Add(-day), USD: "1.5", Tags: map[string]string{"team": "a"}})
	c := needCLI(t, s)
	c.wants(t, Account, to("Account"), "sts", "get-caller-identity")
	c.wants(t, "running", to("Reservations", 0, "Instances", 0, "State", "Name"), "ec2", "describe-instances", "--filters", "Name=tag:team,Values=a", "Name=instance-state-name,Values=running")
	c.wants(t, "stopping", to("StoppingInstances", 0, "CurrentState", "Name"), "ec2", "stop-instances", "--instance-ids", "i-00000000000000001")
	c.wants(t, 97.5, to("MetricDataResults", 0, "Values", 0), "cloudwatch", "get-metric-data", "--start-time", now.Now().Add(-time.Hour).Format(time.RFC3339), "--end-time", now.Now().Format(time.RFC3339),
		"--metric-data-queries", `[{"Id":"cpu","MetricStat":{"Metric":{"Namespace":"AWS/EC2","MetricName":"CPUUtilization","Dimensions":[{"Name":"InstanceId","Value":"i-00000000000000001"}]},"Period":300,"Stat":"Average"}}]`)
	c.wants(t, "1.5", to("ResultsByTime", 0, "Total", "UnblendedCost", "Amount"), "ce", "get-cost-and-usage", "--time-period", "Start=2026-11-01,End=2026-11-02", "--granularity", "DAILY",
		"--metrics", "UnblendedCost", "--filter", `{"Tags":{"Key":"team","Values":["a"]}}`)
	session := c.wants(t, nil, to("Credentials"), "sts", "assume-role", "--role-arn", RoleARN("burst"), "--role-session-name", "job-7", "--external-id", "team-a", "--policy", onlyDescribe, "--duration-seconds", "900")
	c.access, c.secret, c.token = find(t, session, "AccessKeyId").(string), find(t, session, "SecretAccessKey").(string), find(t, session, "SessionToken").(string)
	for _, row := range []struct {
		code string
		line []string
	}{
		{"", []string{"fsx", "describe-file-systems"}},
		{"UnauthorizedOperation", []string{"ec2", "describe-instances"}},
	} {
		if _, code := c.run(t, row.line...); code != row.code {
			t.Errorf("aws %s: %q, and not %q", strings.Join(row.line, " "), code, row.code)
		}
	}
	now.Pass(15 * time.Minute)
	if _, code := c.run(t, "fsx", "describe-file-systems"); code != "ExpiredTokenException" {
		t.Errorf("after its time: %q", code)
	}
}
