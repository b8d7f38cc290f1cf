package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/test/aws"
	"datamove.dev/tiering/burst"
)

// TestOperations asks everything that is asked of AWS, of the stand-in, with every request and reply judged by the models of botocore.
func TestOperations(t *testing.T) {
	c := aws.NewClock()
	server := aws.New(aws.Options{Now: c.Now, Store: empty(), Record: aws.NeedValidator(t).Watch(t)})
	ctx, a := t.Context(), with(server, owner())
	who, err := a.Who(ctx)
	if is(t, err, nil); !strings.HasSuffix(who, ":user/owner") {
		t.Error(who)
	}
	tags := map[string]string{burst.TagBurst: "0123456789abcdef", burst.TagOwner: "anna"}
	large := Want{FileSystem: burst.FileSystem{Type: burst.Persistent2, Throughput: 1000, EFA: true, Compress: true, Subnet: "subnet-0123456789abcdef0", SecurityGroups: []string{"sg-0123456789abcdef0"}},
		Token: "large", GiB: 4800, KMSKey: "arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d-1111-2222-3333-444455556666", Tags: tags}
	made, err := a.Create(ctx, large)
	if is(t, err, nil); made.State != "CREATING" || made.GiB != 4800 || made.Type != burst.Persistent2 || made.Tags[burst.TagBurst] != "0123456789abcdef" || !made.Since.Equal(c.Now()) {
		t.Errorf("%+v", made)
	}
	again, err := a.Create(ctx, large)
	if is(t, err, nil); again.ID != made.ID {
		t.Errorf("the same token made %s and %s", made.ID, again.ID)
	}
	small, err := a.Create(ctx, scratch("small"))
	is(t, err, nil)
	c.Pass(time.Hour)
	all, err := a.FileSystems(ctx)
	if is(t, err, nil); len(all) != 2 {
		t.Errorf("%+v", all)
	}
	seen, err := a.FileSystem(ctx, made.ID)
	if is(t, err, nil); seen.State != "AVAILABLE" || seen.DNS == "" || seen.Mount == "" {
		t.Errorf("%+v", seen)
	}
	is(t, a.Tag(ctx, seen.ARN, map[string]string{"more": "yes"}), nil)
	if seen, err = a.FileSystem(ctx, made.ID); err != nil || seen.Tags["more"] != "yes" || seen.Tags[burst.TagOwner] != "anna" {
		t.Errorf("%+v, %v", seen, err)
	}

	link, err := a.Associate(ctx, small.ID, "link", "s3://bucket/team/x/", tags)
	is(t, err, nil)
	same, err := a.Associate(ctx, small.ID, "link", "s3://bucket/team/x/", tags)
	if is(t, err, nil); link.ID != same.ID || link.Path != "/" || link.Repository != "s3://bucket/team/x/" {
		t.Errorf("%+v and %+v", link, same)
	}
	c.Pass(time.Hour)
	links, err := a.Associations(ctx, small.ID)
	if is(t, err, nil); len(links) != 1 || links[0].State != "AVAILABLE" {
		t.Errorf("%+v", links)
	}
	if links, err = a.Associations(ctx, made.ID); err != nil || len(links) != 0 {
		t.Errorf("%+v, %v", links, err)
	}
	begun, err := a.Begin(ctx, small.ID, "task", burst.ImportWork, []string{"s3://bucket/team/x/"}, "s3://bucket/team/x/reports", tags)
	is(t, err, nil)
	_, err = a.Begin(ctx, small.ID, "task2", burst.ExportWork, []string{"results"}, "s3://bucket/team/x/reports", tags)
	is(t, err, mover.ErrHeld)
	for _, none := range [][]string{nil, {""}, {"a", ""}, make([]string, 101)} {
		_, err = a.Begin(ctx, small.ID, "task3", burst.ExportWork, none, "s3://bucket/x", tags)
		is(t, err, mover.ErrUsage)
	}
	if begun.Ended() || begun.Kind != burst.ImportWork || begun.Tags[burst.TagOwner] != "anna" || begun.Report == "" {
		t.Errorf("%+v", begun)
	}
	is(t, a.Cancel(ctx, begun.ID), nil)
	c.Pass(time.Hour)
	over, err := a.Task(ctx, begun.ID)
	if is(t, err, nil); !over.Ended() || over.State != "CANCELED" {
		t.Errorf("%+v", over)
	}
	if tasks, err := a.Tasks(ctx, small.ID); err != nil || len(tasks) != 1 || tasks[0].ID != begun.ID {
		t.Errorf("%+v, %v", tasks, err)
	}
	is(t, a.Cancel(ctx, begun.ID), mover.ErrConflict) // it has ended
	is(t, a.Delete(ctx, small.ID, "gone"), nil)
	c.Pass(time.Hour)
	_, err = a.FileSystem(ctx, small.ID)
	is(t, err, mover.ErrNotExist)
	_, err = a.Task(ctx, "task-0123456789abcdef0")
	is(t, err, mover.ErrNotExist)
	is(t, a.Delete(ctx, small.ID, "gone2"), mover.ErrNotExist)

	server.AddInstance(aws.Instance{ID: "i-0123456789abcdef0", Type: "p5.48xlarge", LaunchTime: c.Now(), Tags: tags})
	server.AddInstance(aws.Instance{ID: "i-0123456789abcdef1", Type: "p5.48xlarge", LaunchTime: c.Now()})
	instances, err := a.Instances(ctx)
	if is(t, err, nil); len(instances) != 1 || instances[0].State != "running" || instances[0].Type != "p5.48xlarge" || instances[0].Tags[burst.TagOwner] != "anna" || !instances[0].Since.Equal(c.Now()) {
		t.Errorf("%+v", instances)
	}
	is(t, a.Stop(ctx, "i-0123456789abcdef0"), nil)
	if instances, err = a.Instances(ctx); err != nil || instances[0].State != "stopping" {
		t.Errorf("%+v, %v", instances, err)
	}
	is(t, a.Stop(ctx, "i-0123456789abcdef9"), mover.ErrNotExist)
	if keys, err := a.Renew(ctx); err != nil || keys.AccessKey != aws.OwnerKey || !keys.Expires.IsZero() {
		t.Errorf("%v, %v", keys.Expires, err)
	}
}

// TestThrottled: AWS that is too busy, or fails, is asked again, with the same token; one that stays so is mover.ErrTransient.
func TestThrottled(t *testing.T) {
	c := aws.NewClock()
	for _, fault := range []aws.Fault{aws.Throttled, aws.InternalError} {
		server := aws.New(aws.Options{Now: c.Now, Store: empty()})
		ctx, a := t.Context(), with(server, owner())
		is(t, server.AddRole(aws.Role{Name: "burst"}), nil)
		for operation, do := range map[string]func() error{
			"CreateFileSystem":    func() error { _, err := a.Create(ctx, scratch("x")); return err },
			"DescribeFileSystems": func() error { _, err := a.FileSystems(ctx); return err },
			"DescribeInstances":   func() error { _, err := a.Instances(ctx); return err },
			"GetCallerIdentity":   func() error { _, err := a.Who(ctx); return err },
			"GetMetricData": func() error {
				_, err := a.InstanceActivity(ctx, "i-1", c.Now().Add(-time.Hour), c.Now())
				return err
			},
			"GetCostAndUsage": func() error { _, err := a.Costs(ctx, c.Now().AddDate(0, 0, -2), c.Now()); return err },
			"AssumeRole": func() error {
				o := owner()
				o.Role = aws.RoleARN("burst")
				_, err := with(server, o).Renew(ctx)
				return err
			},
		} {
			server.Order(operation, 7, fault)
			if err := do(); err != nil || server.Calls(operation) != 8 {
				t.Errorf("%s %s: %v after %d calls", operation, fault, err, server.Calls(operation))
			}
			server.Order(operation, 8, fault)
			if err := do(); !errors.Is(err, mover.ErrTransient) || server.Calls(operation) != 16 {
				t.Errorf("%s %s: %v after %d calls", operation, fault, err, server.Calls(operation))
			}
		}
		if all, err := a.FileSystems(ctx); err != nil || len(all) != 1 {
			t.Errorf("%s: %d file systems, %v", fault, len(all), err)
		}
	}
}

// TestAnswerLost: what was asked for, and of which no answer came, is asked for again with its token, by us or by who comes after us, and is there once.
func TestAnswerLost(t *testing.T) {
	server := aws.New(aws.Options{Now: aws.NewClock().Now, Store: empty()})
	ctx, a := t.Context(), with(server, owner())
	server.Order("CreateFileSystem", 2, aws.AnswerLost)
	made, err := a.Create(ctx, scratch("x"))
	is(t, err, nil)
	impatient := owner()
	impatient.Attempts = 1
	once := with(server, impatient)
	server.Order("CreateFileSystem", 1, aws.AnswerLost)
	_, err = once.Create(ctx, scratch("y"))
	is(t, err, mover.ErrUnreachable)
	other, err := with(server, owner()).Create(ctx, scratch("y"))
	is(t, err, nil)
	all, err := a.FileSystems(ctx)
	if is(t, err, nil); len(all) != 2 || made.ID == other.ID || server.Calls("CreateFileSystem") != 5 {
		t.Errorf("%+v after %d calls", all, server.Calls("CreateFileSystem"))
	}
	many := scratch("z")
	for i := range 20 {
		many.Tags[fmt.Sprint("label-", i)] = "x"
	}
	third, err := a.Create(ctx, many)
	is(t, err, nil)
	for range 10 { // a request is the same each time, whatever the order of a map is
		again, err := a.Create(ctx, many)
		if is(t, err, nil); again.ID != third.ID {
			t.Errorf("%s and %s", again.ID, third.ID)
		}
	}
	if _, err = a.Create(ctx, func() Want { w := scratch("y"); w.GiB = 2400; return w }()); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("another file system with the same token: %v", err)
	}
}

// TestExpiry: a session under a role ends after an hour, and is renewed before; keys that AWS takes for expired all the same are mover.ErrPermission.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := aws.New(aws.Options{Skew: 5 * time.Minute})
		is(t, server.AddRole(aws.Role{Name: "burst"}), nil)
		o := owner()
		o.Role, o.Name = aws.RoleARN("burst"), "datamove-x"
		ctx, a := t.Context(), with(server, o)
		first, err := a.Renew(ctx)
		if is(t, err, nil); !strings.HasPrefix(first.AccessKey, "ASIA") || first.SessionToken == "" || !first.Expires.After(time.Now()) {
			t.Errorf("%+v", first)
		}
		seen := map[string]bool{}
		for range 30 { // five hours
			time.Sleep(10 * time.Minute)
			if _, err := a.FileSystems(ctx); err != nil {
				t.Fatalf("at %v: %v", time.Now(), err)
			}
			keys, err := a.Renew(ctx)
			if is(t, err, nil); !keys.Expires.After(time.Now()) {
				t.Errorf("keys that ended at %v", keys.Expires)
			}
			seen[keys.AccessKey] = true
		}
		if n := server.Calls("AssumeRole"); n != len(seen) || n < 5 || n > 8 {
			t.Errorf("%d sessions in five hours, of which %d were seen", n, len(seen))
		}
		now, err := a.Renew(ctx)
		is(t, err, nil)
		server.Revoke(now.AccessKey)
		_, err = a.FileSystems(ctx)
		is(t, err, mover.ErrPermission)
		_, err = a.FileSystems(ctx) // with a new session
		is(t, err, nil)
		stale := with(server, Options{Region: "us-east-1", Keys: s3api.Session{Keys: aws.Static(first.AccessKey, string(first.SecretKey), string(first.SessionToken))}})
		for what, err := range map[string]error{"fsx": errOf(stale.FileSystems(ctx)), "ec2": errOf(stale.Instances(ctx)), "sts": errOf(stale.Who(ctx)), "ce": errOf(stale.Costs(ctx, time.Now().AddDate(0, 0, -2), time.Now()))} {
			if !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), "xpired") && what != "ec2" {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func errOf[T any](_ T, err error) error { return err }

// TestSessionPolicy: a session of a burst may work in its region, and in no other one, and a role that there is not is denied.
func TestSessionPolicy(t *testing.T) {
	server := aws.New(aws.Options{Now: aws.NewClock().Now, Regions: []string{"us-east-1", "eu-west-1"}, Store: empty(), Record: aws.NeedValidator(t).Watch(t)})
	is(t, server.AddRole(aws.Role{Name: "burst"}), nil)
	cloud := burst.Cloud{Region: "us-east-1", Role: aws.RoleARN("burst")}
	for _, prefix := range []string{"team/bursts/x", "日本/*${x}"} {
		policy, err := cloud.SessionPolicy("bucket", prefix)
		is(t, err, nil)
		for region, kind := range map[string]error{"us-east-1": nil, "eu-west-1": mover.ErrPermission} {
			o := owner()
			o.Region, o.Role, o.Policy = region, cloud.Role, policy
			ctx, a := t.Context(), with(server, o)
			_, err := a.Create(ctx, scratch(fmt.Sprint("x", len(prefix))))
			is(t, err, kind)
			is(t, errOf(a.FileSystems(ctx)), kind)
			is(t, errOf(a.Instances(ctx)), kind)
			is(t, errOf(a.InstanceActivity(ctx, "i-1", time.Now().Add(-time.Hour), time.Now())), kind)
			is(t, errOf(a.Costs(ctx, time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC))), nil)
		}
	}
	o := owner()
	o.Role = aws.RoleARN("none")
	_, err := with(server, o).FileSystems(t.Context())
	if is(t, err, mover.ErrPermission); !strings.Contains(err.Error(), "assume") || strings.Contains(err.Error(), "operation error") {
		t.Error(err)
	}
}

// never are kinds that no answer of AWS is of: each kind of package mover stands here, or in the table.
var never = []error{mover.ErrChanged, mover.ErrRefused, mover.ErrReleased, mover.ErrCorrupt, mover.ErrTimeout, mover.ErrUnreachable}

// TestKinds walks every kind through the table, and every code of the table over the wire of the service that has it.
func TestKinds(t *testing.T) {
	for _, kind := range mover.Kinds() {
		in := false
		for _, k := range kinds {
			in = in || k == kind
		}
		if in == slices.Contains(never, kind) {
			t.Errorf("%v: in the table %v", kind, in)
		}
	}
	o := owner()
	o.Attempts = 1
	for code, kind := range kinds {
		json := &says{status: http.StatusBadRequest, answers: map[string]string{"DescribeFileSystems": jsonOf(map[string]string{"__type": code, "Message": "no\x1b[2J"})}}
		sts := &says{status: http.StatusForbidden, answers: map[string]string{"GetCallerIdentity": "<ErrorResponse><Error><Type>Sender</Type><Code>" + code + "</Code><Message>no</Message></Error></ErrorResponse>"}}
		ec2 := &says{status: http.StatusBadRequest, answers: map[string]string{"DescribeInstances": "<Response><Errors><Error><Code>" + code + "</Code><Message>no</Message></Error></Errors></Response>"}}
		for what, err := range map[string]error{"json": errOf(with(json, o).FileSystems(t.Context())), "sts": errOf(with(sts, o).Who(t.Context())), "ec2": errOf(with(ec2, o).Instances(t.Context()))} {
			var e *mover.Error
			if !errors.Is(err, kind) || !errors.As(err, &e) || !strings.Contains(err.Error(), code) || strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("%s by %s: %q; want %v", code, what, err, kind)
			}
		}
	}
	for status, kind := range map[int]error{401: mover.ErrPermission, 403: mover.ErrPermission, 407: mover.ErrPermission, 429: mover.ErrTransient, 500: mover.ErrTransient, 502: mover.ErrTransient, 503: mover.ErrTransient, 504: mover.ErrTransient} {
		proxy := &says{status: status, answers: map[string]string{"DescribeFileSystems": "<html>\x1b]0;no</html>", "DescribeInstances": "<html>no</html>", "GetCallerIdentity": ""}}
		a := with(proxy, o)
		for _, err := range []error{errOf(a.FileSystems(t.Context())), errOf(a.Instances(t.Context())), errOf(a.Who(t.Context()))} {
			if !errors.Is(err, kind) || strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("%d: %q; want %v", status, err, kind)
			}
		}
	}
	odd := &says{status: http.StatusBadRequest, answers: map[string]string{"DescribeFileSystems": `{"__type": "NewError", "Message": "` + strings.Repeat("x", 5000) + `"}`}}
	if err := errOf(with(odd, o).FileSystems(t.Context())); mover.KindName(err) != "OTHER" || len(err.Error()) > 700 || !strings.Contains(err.Error(), "NewError") {
		t.Errorf("%d bytes: %.100v", len(err.Error()), err)
	}
}

// fails is a connection that does not come about.
type fails struct{ err error }

func (f fails) Do(*http.Request) (*http.Response, error) { return nil, f.err }

// TestUnreachable: what is wrong with the way to AWS, and not with an answer.
func TestUnreachable(t *testing.T) {
	o := owner()
	o.Attempts = 2
	for _, test := range []struct{ err, kind error }{
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, mover.ErrUnreachable},
		{&net.DNSError{Err: "no such host", Name: "fsx", IsNotFound: true}, mover.ErrUnreachable},
		{io.ErrUnexpectedEOF, mover.ErrUnreachable},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, mover.ErrTimeout},
	} {
		a := open(o, fails{test.err})
		if err := errOf(a.FileSystems(t.Context())); !errors.Is(err, test.kind) {
			t.Errorf("%v: %v", test.err, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := errOf(with(&says{}, o).FileSystems(ctx)); !errors.Is(err, context.Canceled) || mover.KindName(err) != "OTHER" {
		t.Errorf("%v", err)
	}
}

// TestAwait: pauses grow from 5 s to a minute, a third of each is chance, and they end with ctx.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := with(&says{}, owner())
		var looks []time.Time
		is(t, a.Await(t.Context(), func(context.Context) (bool, error) {
			looks = append(looks, time.Now())
			return len(looks) == 20, nil
		}), nil)
		most, chance := 5*time.Second, map[time.Duration]bool{}
		for i := 1; i < len(looks); i++ {
			pause := looks[i].Sub(looks[i-1])
			if pause < most*2/3 || pause > most {
				t.Errorf("pause %d is %v; want %v to %v", i, pause, most*2/3, most)
			}
			chance[pause] = true
			most = min(time.Minute, most*3/2)
		}
		if len(chance) < 10 {
			t.Errorf("there is no chance in %v", chance)
		}
		gone := errors.New("gone")
		is(t, a.Await(t.Context(), func(context.Context) (bool, error) { return false, gone }), gone)

		ctx, stop := context.WithCancelCause(t.Context())
		why := errors.New("the cap is reached")
		time.AfterFunc(90*time.Second, func() { stop(why) })
		begun, n := time.Now(), 0
		is(t, a.Await(ctx, func(context.Context) (bool, error) { n++; return false, nil }), why)
		if took := time.Since(begun); took != 90*time.Second || n < 6 {
			t.Errorf("it ended after %v and %d looks", took, n)
		}
	})
}

// TestSecrets: no key and no token is in an error, a log, or what the stand-in notes of requests.
func TestSecrets(t *testing.T) {
	c, log := aws.NewClock(), &written{}
	server := aws.New(aws.Options{Now: c.Now, Store: empty()})
	is(t, server.AddRole(aws.Role{Name: "burst"}), nil)
	o := owner()
	o.Role, o.Logger, o.Attempts = aws.RoleARN("burst"), logger(log), 2
	ctx, a := t.Context(), with(server, o)
	keys, err := a.Renew(ctx)
	is(t, err, nil)
	var said strings.Builder
	note := func(err error) { fmt.Fprintf(&said, "%v %+v %#v\n", err, err, err) }
	do := func() {
		note(errOf(a.Create(ctx, scratch("x"))))
		note(errOf(a.FileSystem(ctx, "fs-0123456789abcdef0")))
		note(errOf(a.Associate(ctx, "fs-0123456789abcdef0", "t", "s3://b/x/", nil)))
		note(errOf(a.Begin(ctx, "fs-0123456789abcdef0", "t", burst.ExportWork, []string{"x"}, "s3://b/x", nil)))
		note(errOf(a.Tasks(ctx, "fs-0123456789abcdef0")))
		note(a.Stop(ctx, "i-0123456789abcdef0"))
		note(errOf(a.InstanceActivity(ctx, "i-1", c.Now().Add(-time.Hour), c.Now())))
		note(errOf(a.Costs(ctx, c.Now().AddDate(0, 0, -2), c.Now())))
		note(errOf(a.Renew(ctx)))
		note(errOf(a.Who(ctx)))
	}
	for _, fault := range []aws.Fault{aws.Throttled, aws.InternalError, aws.Denied, aws.AnswerLost} {
		server.Order("*", 40, fault)
		do()
	}
	server.Revoke(keys.AccessKey)
	do()
	note(errOf(open(o, fails{&net.OpError{Op: "dial", Err: errors.New("refused")}}).FileSystems(ctx)))
	fmt.Fprintf(&said, "%+v\n%#v\n%+v\n", o, keys, a)
	for _, r := range server.Log() {
		fmt.Fprintf(&said, "%+v\n", r)
	}
	said.WriteString(log.String())
	for _, secret := range []string{aws.OwnerSecret, string(keys.SecretKey), string(keys.SessionToken)} {
		if secret == "" || strings.Contains(said.String(), secret) {
			at := strings.Index(said.String(), secret)
			t.Errorf("a secret is told: %.300q", said.String()[max(0, at-200):])
		}
	}
	if len(said.String()) < 5000 || !strings.Contains(log.String(), "retrying request") {
		t.Errorf("only %d bytes were said, of which the log has %.300q", said.Len(), log.String())
	}
}
