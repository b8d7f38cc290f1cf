package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/aws/aws-sdk-go-v2/service/fsx"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/aws"
	"datamove.dev/test/memnet"
	"datamove.dev/test/must"
	"datamove.dev/test/s3server"
	"datamove.dev/tiering/burst"
)

var burstDeeds = []deed{{"burst up", 7}, {"burst save", 6}, {"burst home", 4}, {"burst down", 4}, {"burst reap", 1}, {"aws", 3}}

const (
	burstNames = 3
	overflowAt = "127.0.0.1:7"
	awsAt      = "127.0.0.1:8"
	awsKey     = "AWS_ACCESS_KEY_ID=test\nAWS_SECRET_ACCESS_KEY=test-secret\n"
)

// teams have so much money: each burst may cost about ten dollars, so that not all of them have room.
var teams = map[string]string{"vision": "$25", "speech": "$12"}

// bursts are file systems in AWS for some hours, which is the fake of test/aws: it is slow, refuses, and answers are lost.
type bursts struct {
	*running
	store   s3server.Server
	aws     *aws.Server
	odds    odds
	fates   sky
	fair    atomic.Bool
	saved   map[string]map[string]string // what jobs have saved, by burst and file
	trouble bool
}

func (r *bursts) configure(c *config.Config) {
	dir := filepath.Dir(c.Tiers["shared"].Path)
	keys := filepath.Join(dir, "aws.env")
	must.Do(r.t, os.WriteFile(keys, []byte(awsKey), 0o600))
	c.Tiers["overflow"] = config.Tier{Level: "cold", S3: &config.S3{Endpoint: "http://" + overflowAt, Bucket: "overflow", Prefix: "team", Credentials: "file:" + keys}}
	c.Burst.Accounts = map[string]config.BurstAccount{}
	for team, limit := range teams {
		c.Burst.Accounts[team] = config.BurstAccount{Cap: limit, Period: "total"}
	}
	for _, service := range []string{"FSX", "STS", "EC2", "CLOUDWATCH", "COST_EXPLORER"} {
		r.t.Setenv("AWS_ENDPOINT_URL_"+service, "http://"+awsAt)
	}
	rng := rand.New(rand.NewPCG(r.w.seed, 43))
	chance := func(most float64) float64 { return most * rng.Float64() * float64(rng.IntN(2)) }
	r.odds = odds{late: chance(0.5), slow: chance(0.5), cut: chance(0.1), lost: chance(0.15), longest: []time.Duration{200 * time.Millisecond, 3 * time.Second}[rng.IntN(2)]}
	through := aws.Through(&r.store)
	lasts := []time.Duration{time.Millisecond, time.Second, 20 * time.Second}[rng.IntN(3)]
	r.aws = aws.New(aws.Options{Store: &aws.Store{Endpoint: "http://" + overflowAt, Access: "test", Secret: "test", Client: through},
		Lasts: aws.Lasts{Create: lasts, Delete: lasts, Link: lasts, Pending: lasts, Executing: lasts, AutoExport: lasts, Stop: lasts}})
	must.Do(r.t, r.aws.AddKey("datamove", "test", "test-secret", ""))
}

func (r *bursts) begin() {
	if r.Stores == nil {
		r.Stores = memnet.New(r.t)
	}
	r.Stores.Serve(overflowAt, &r.store)
	r.Stores.Serve(awsAt, http.HandlerFunc(r.answer))
	r.fates = sky{w: &r.w, seen: map[string]uint64{}}
	r.saved = map[string]map[string]string{}
	for n := range 3 {
		at := filepath.Join(r.Dir, "shared", "words", fmt.Sprint("w", n))
		must.Do(r.t, os.MkdirAll(filepath.Dir(at), 0o755))
		must.Do(r.t, os.WriteFile(at, []byte(strings.Repeat(fmt.Sprint("word", n), 100)), 0o644))
	}
	r.pending = append(r.pending, mending{time.Now().Add(10000 * time.Hour), func() bool { r.fair.Store(true); return true }, "fair"})
}

// answer is that of AWS, on its way.
func (r *bursts) answer(w http.ResponseWriter, req *http.Request) {
	if r.fair.Load() {
		r.aws.ServeHTTP(w, req)
		return
	}
	agentName, _, _ := strings.Cut(req.RemoteAddr, "/")
	d, o := r.fates.dice(agentName+" "+req.Header.Get("X-Amz-Target")), &r.odds
	if d.Float64() < o.late {
		time.Sleep(time.Duration(d.Int64N(int64(o.longest))))
	}
	if d.Float64() < o.cut {
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	r.aws.ServeHTTP(answer, req)
	if d.Float64() < o.slow {
		time.Sleep(time.Duration(d.Int64N(int64(o.longest))))
	}
	if d.Float64() < o.lost {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func burstName(i int) string { return fmt.Sprint("burst-", i%burstNames) }

// declaration is that of a burst.
func declaration(i int) string {
	team := []string{"vision", "vision", "speech"}[i%burstNames]
	name := burstName(i)
	return fmt.Sprintf(`kind: Burst
metadata: {name: %s}
spec:
  team: %s
  job: {kind: training, priority: high, gpus: 64, startsIn: 9h}
  cloud:
    tier: overflow
    region: us-east-1
    fileSystem: {type: SCRATCH_2, subnet: subnet-0123456789abcdef0}
  link: {kind: directConnect, rate: 10Gbit/s}
  lasts: 30h
  data:
    - {from: "shared:words", to: words}
  results:
    - {path: results, home: "shared:home-%s"}
`, name, team, name)
}

func (r *bursts) do(s step) {
	name := burstName(s.a)
	req := &pb.ApplyBurstRequest{Name: name}
	switch s.do {
	case "burst up":
		req = &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_UP, Declaration: declaration(s.a)}
	case "burst home":
		req.Step, req.Release = pb.BurstStep_BURST_STEP_SYNC_BACK, s.b%2 == 0
	case "burst down":
		req.Step, req.Settle = pb.BurstStep_BURST_STEP_DOWN, durationpb.New(0)
	case "burst reap":
		req.Step, req.Take, req.Settle = pb.BurstStep_BURST_STEP_REAP, true, durationpb.New(0)
	case "burst save":
		r.save(name, s)
		return
	case "aws":
		op := []string{"*", "CreateFileSystem", "DeleteFileSystem", "CreateDataRepositoryAssociation", "CreateDataRepositoryTask", "DescribeDataRepositoryTasks"}[s.a%6]
		r.aws.Order(op, 1+s.b%4, []aws.Fault{aws.Throttled, aws.InternalError, aws.AnswerLost, aws.EndsFailed, aws.NoReport}[s.c%5])
		r.trouble = true
		return
	}
	r.n++
	req.IdempotencyKey = fmt.Sprint("key", r.n)
	a := &asked{what: s.do + " " + name, call: func(ctx context.Context, c *api.Client) (string, error) {
		t, err := api.Once(ctx, c, c.ApplyBurst, req)
		return t.GetId(), err
	}}
	r.ask(a)
}

// record is what is known of a burst; nil is nothing.
func (r *bursts) record(name string) *burst.Record {
	known, err := r.GetBurst(context.Background(), &pb.GetBurstRequest{Name: name})
	if err != nil {
		if !errors.Is(err, mover.ErrNotExist) && r.up {
			r.t.Errorf("burst %s: %v", name, err)
		}
		return nil
	}
	x := &burst.Record{}
	must.Do(r.t, json.Unmarshal([]byte(known.GetRecord()), x))
	return x
}

// save has a job of a burst that is ready save a file.
func (r *bursts) save(name string, s step) {
	if !r.up {
		return
	}
	x := r.record(name)
	if x == nil || x.State != burst.Ready || x.FileSystem.ID == "" {
		return
	}
	tree := r.aws.FileSystem(x.FileSystem.ID)
	if tree == nil {
		return
	}
	file, text := fmt.Sprint("log", s.b%4), fmt.Sprint("loss ", r.n, " ", s.c)
	r.n++
	tree.Write(aws.File{Name: "results/" + file, Body: []byte(text), Mode: 0o644})
	if r.saved[name] == nil {
		r.saved[name] = map[string]string{}
	}
	r.saved[name][file] = text
}

// ordersMost is more than what may be ordered of AWS at one time.
const ordersMost = 30

// systems are the file systems that there are in AWS, or that are being made, by burst.
func (r *bursts) systems() map[string][]string {
	var out *fsx.DescribeFileSystemsOutput
	err := errors.New("not asked")
	for n := 0; err != nil && n < ordersMost; n++ { // what was ordered of AWS meets this call, too
		out, err = fsx.NewFromConfig(r.aws.Config()).DescribeFileSystems(context.Background(), &fsx.DescribeFileSystemsInput{})
	}
	must.Do(r.t, err)
	all := map[string][]string{}
	for _, f := range out.FileSystems {
		if f.Lifecycle == "DELETING" {
			continue
		}
		name := ""
		for _, tag := range f.Tags {
			if *tag.Key == burst.TagName {
				name = *tag.Value
			}
		}
		all[name] = append(all[name], *f.FileSystemId+" "+string(f.Lifecycle))
	}
	return all
}

func (r *bursts) check() {
	if len(r.aws.Log()) == 0 {
		return
	}
	for name, all := range r.systems() {
		if len(all) > 1 && !r.trouble { // one that has FAILED is replaced
			r.t.Errorf("burst %s has file systems %v", name, all)
		}
	}
	r.accounts(false)
}

// accounts checks the money of all teams; settled is that nothing is reserved any more.
func (r *bursts) accounts(settled bool) {
	known, err := r.GetAccounts(context.Background(), &pb.GetAccountsRequest{Teams: slices.Sorted(maps.Keys(teams))})
	if err != nil {
		r.t.Errorf("the accounts: %v", err)
		return
	}
	for _, a := range known.GetAccounts() {
		left := int64(0)
		for _, b := range a.GetBursts() {
			left += b.GetLeftMicros()
		}
		switch {
		case a.GetSpentMicros()+a.GetReservedMicros() > a.GetCapMicros():
			r.t.Errorf("more is spent and reserved than the cap: %v", a)
		case left != a.GetReservedMicros():
			r.t.Errorf("the open bursts have %d of the reserved: %v", left, a)
		case a.GetFreeMicros() != a.GetCapMicros()-a.GetSpentMicros()-a.GetReservedMicros():
			r.t.Errorf("the balance is not the sum: %v", a)
		case settled && (left != 0 || len(a.GetBursts()) > 0):
			r.t.Errorf("all bursts are gone, and money is reserved: %v", a)
		}
	}
}

func (r *bursts) mayFail(x *pb.Task) bool {
	if x.GetSpec().GetKind() != pb.TaskKind_TASK_KIND_BURST {
		return false
	}
	switch x.GetErrorKind() {
	case "REFUSED", "CONFLICT", "NOT_EXIST", "USAGE": // no money, another state, nothing that is up
		return true
	case "TRANSIENT", "TIMEOUT", "UNREACHABLE":
		return r.trouble || r.odds.cut+r.odds.lost > 0
	}
	return r.trouble
}

// end takes all bursts down, and looks that what their jobs have saved is here, and that nothing is left there.
func (r *bursts) end(map[string]*pb.Task) {
	for i := range burstNames {
		name := burstName(i)
		for range 5 { // what was ordered of AWS has to be met
			x := r.record(name)
			if x == nil || x.State == burst.Gone {
				break
			}
			ready := x.State == burst.Ready
			for _, req := range []*pb.ApplyBurstRequest{
				{Step: pb.BurstStep_BURST_STEP_SYNC_BACK, Name: name},
				{Step: pb.BurstStep_BURST_STEP_DOWN, Name: name, Settle: durationpb.New(0)},
			} {
				t, err := r.ApplyBurst(context.Background(), req)
				if err != nil {
					r.t.Errorf("%v of %s: %v", req.GetStep(), name, err)
					return
				}
				if !r.rest() {
					return
				}
				if t = r.Now(t.GetId()); t.GetState() != task.Done && ready && !r.trouble {
					r.t.Errorf("nothing is wrong any more with %v of a burst that is %s: %s", req.GetStep(), x.State, told(t))
				}
			}
		}
		if x := r.record(name); x != nil && x.State != burst.Gone && !r.t.Failed() {
			r.t.Errorf("burst %s is %s: %s", name, x.State, x.Trouble)
		}
		for file, text := range r.saved[name] {
			if got, err := os.ReadFile(filepath.Join(r.Dir, "shared", "home-"+name, file)); err != nil || string(got) != text {
				r.t.Errorf("burst %s has saved %q in %s, and here there is %q, %v", name, text, file, got, err)
			}
		}
	}
	if r.t.Failed() {
		return
	}
	time.Sleep(time.Minute) // what is being deleted is gone then
	if left := r.systems(); len(left) > 0 {
		r.t.Errorf("all bursts are gone, and there is %v", left)
	}
	r.accounts(true)
}
