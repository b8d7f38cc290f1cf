package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/config"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/aws"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst"
	burstaws "datamove.dev/tiering/burst/aws"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/link"
	"datamove.dev/tiering/burst/pricing"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if aws.CloseValidator() != nil {
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// stepping is an account whose waits move the clock of the stand-in, and not ours.
type stepping struct {
	*burstaws.Account
	clock *aws.Clock
}

func (s stepping) Await(ctx context.Context, look func(context.Context) (bool, error)) error {
	for range 10_000 {
		over, err := look(ctx)
		if over || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		s.clock.Pass(time.Minute)
	}
	return errors.New("it never is over")
}

// world is a stand-in for AWS, a real store, and what is here.
type world struct {
	t       *testing.T
	clock   *aws.Clock
	aws     *aws.Server
	store   *s3test.Server
	dir     string
	records [][]byte // as JSON, the oldest first
	spent   entries
	ledger  *budget.Ledger
	book    *pricing.Book
	said    []string
	site    backend.Resolver
	region  string
	below   string // the prefix of the tier
}

func newWorld(t *testing.T, limit pricing.Money) *world {
	return worldIn(t, s3test.Start(t, false), "team", limit)
}

// judged is a world every request and reply of which the service models of botocore are asked about.
func judged(t *testing.T, limit pricing.Money) *world {
	v := aws.NeedValidator(t)
	return worldIn(t, s3test.Start(t, false), "team", limit, v.Watch(t))
}

// worldIn is a world whose tier is a prefix of a store.
func worldIn(t *testing.T, store *s3test.Server, below string, limit pricing.Money, record ...func(aws.Exchange)) *world {
	w := &world{t: t, clock: aws.NewClock(), store: store, below: below, dir: t.TempDir(), region: "us-east-1"}
	o := aws.Options{Now: w.clock.Now, Store: &aws.Store{Endpoint: w.store.Endpoint, Access: w.store.Access, Secret: w.store.Secret}}
	for _, r := range record {
		o.Record = r
	}
	w.aws = aws.New(o)
	url := w.aws.Start(t)
	for _, service := range []string{"FSX", "STS", "EC2", "CLOUDWATCH", "COST_EXPLORER"} {
		t.Setenv("AWS_ENDPOINT_URL_"+service, url)
	}
	keys := filepath.Join(w.dir, "keys.env")
	w.must(os.WriteFile(keys, []byte("AWS_ACCESS_KEY_ID="+w.store.Access+"\nAWS_SECRET_ACCESS_KEY="+w.store.Secret+"\n"), 0o600))
	w.site = backend.Resolver{Tiers: map[string]config.Tier{
		"project": {Level: "warm", Path: filepath.Join(w.dir, "project")},
		"cloud":   {Level: "cold", S3: &config.S3{Endpoint: w.store.Endpoint, Bucket: w.store.Bucket, Prefix: below, Credentials: "file:" + keys, Region: "us-east-1"}},
	}}
	w.must(os.MkdirAll(filepath.Join(w.dir, "project"), 0o755))
	w.account(limit)
	var err error
	w.book, err = pricing.Open("../../../deploy/prices/us-east-1.yaml")
	w.must(err)
	return w
}

// account opens the ledger, as a new process does.
func (w *world) account(limit pricing.Money) {
	var err error
	w.ledger, err = budget.New(w.t.Context(), &w.spent, []budget.Account{{Team: "vision", Cap: limit, Period: budget.Total}}, budget.Options{Now: w.clock.Now})
	w.must(err)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// leg is a new process: it knows the records that were kept, and nothing else.
func (w *world) leg() *Manager {
	w.t.Helper()
	rules, err := burst.ReadAdmission("default", []byte(burst.DefaultAdmission))
	w.must(err)
	account := burstaws.Open(burstaws.Options{Region: "us-east-1", Keys: s3api.Session{Keys: aws.Static(aws.OwnerKey, aws.OwnerSecret, "")}, Backoff: time.Millisecond})
	return &Manager{Cloud: stepping{account, w.clock}, Way: &link.Link{Open: w.site.Open, Request: engine.Request{StateDir: filepath.Join(w.dir, "state")}}, Purse: w.ledger, Book: w.book, Rules: rules,
		Keep: w.keep, Bucket: w.store.Bucket, Below: w.below, Where: func(context.Context) (string, error) { return w.region, nil }, Owner: "anna", Now: w.clock.Now,
		Find: func(text string) (location.Location, error) {
			l, err := location.Parse(text)
			if err != nil {
				return l, err
			}
			l, ok := w.site.Resolve(l)
			if !ok {
				return l, mover.ErrNotExist
			}
			return l, nil
		},
		Tell: func(format string, args ...any) {
			w.said = append(w.said, strings.TrimSpace(mover.Printable(sprintf(format, args...))))
		}}
}

// keep keeps a record in the place of what there is of it, as a coordinator does.
func (w *world) keep(r *burst.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	for i, known := range w.kept() {
		if known.ID == r.ID {
			w.records[i] = text
			return nil
		}
	}
	w.records = append(w.records, text)
	return nil
}

// kept are the records that were, the oldest first.
func (w *world) kept() (all []*burst.Record) {
	w.t.Helper()
	for _, text := range w.records {
		r := &burst.Record{}
		w.must(json.Unmarshal(text, r))
		all = append(all, r)
	}
	return all
}

// record is the newest one of a name.
func (w *world) record(name burst.Name) *burst.Record {
	w.t.Helper()
	for _, r := range slices.Backward(w.kept()) {
		b, err := r.Burst()
		w.must(err)
		if b.Metadata.Name == name {
			return r
		}
	}
	w.t.Fatalf("there is no record of %s", name)
	return nil
}

// entries are what was spent. It is a budget.Log.
type entries struct {
	mu  sync.Mutex
	all []budget.Entry // guarded by mu
}

// Read implements budget.Log.
func (e *entries) Read(_ context.Context, n int64, each func(budget.Entry) error) error {
	e.mu.Lock()
	all := e.all[n:]
	e.mu.Unlock()
	for _, one := range all {
		if err := each(one); err != nil {
			return err
		}
	}
	return nil
}

// Append implements budget.Log.
func (e *entries) Append(_ context.Context, n int64, one budget.Entry) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n != int64(len(e.all)) {
		return mover.ErrChanged
	}
	e.all = append(e.all, one)
	return nil
}

// count is how many entries of a kind there are.
func (e *entries) count(kind budget.Kind) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.all {
		if one.Kind == kind {
			n++
		}
	}
	return n
}

// write puts a file below the project directory.
func (w *world) write(name string, size int) {
	w.t.Helper()
	at := filepath.Join(w.dir, "project", name)
	w.must(os.MkdirAll(filepath.Dir(at), 0o755))
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(i*7 + len(name))
	}
	w.must(os.WriteFile(at, body, 0o644))
}

// objects are the keys in the store below a prefix of the tier.
func (w *world) objects(prefix string) (all []string) {
	w.t.Helper()
	root := filepath.Join(w.store.Dir, w.below, prefix)
	w.must(filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(root, path)
			all = append(all, name)
		}
		return err
	}))
	return all
}

const declared = `kind: Burst
metadata: {name: llama-ft}
spec:
  team: vision
  job: {kind: training, priority: high, gpus: 64, startsIn: 9h}
  cloud:
    tier: cloud
    region: us-east-1
    fileSystem: {type: SCRATCH_2, subnet: subnet-0123456789abcdef0, securityGroups: [sg-0123456789abcdef0]}
  link: {kind: directConnect, rate: 10Gbit/s}
  lasts: 30h
  data:
    - {from: "project:datasets/imagenet", to: datasets/imagenet, residency: [us]}
  checkpoints:
    - {path: checkpoints/run7, home: "project:runs/run7", profile: plain, size: 1GB, every: 30m}
  results:
    - {path: results, home: "project:results"}
`

func read(t *testing.T, text string) *burst.Burst {
	t.Helper()
	all := must.Get(burst.Read("burst.yaml", []byte(text)))(t)
	return all[0]
}
