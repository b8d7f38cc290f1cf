package catalog

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/query"
)

// localCatalog is a catalog of this process, in the directory of its state: trees are locations there.
type localCatalog struct {
	app     *cli.App
	command string
	catalog *catalog.Catalog
	at      location.Location // what is asked about
	tree    catalog.Tree
	dir     string
}

// askHere answers in this process, and scans what it does not know.
func askHere(ctx context.Context, a *cli.App, command string, asked *pb.Question, c Freshness, body func(context.Context, Reader) error) (err error) {
	if asked.GetNode() != "" || asked.GetProject() != "" {
		return mover.Misusef("--node and --through are for a service, and there is none")
	}
	o := &localCatalog{app: a, command: command}
	if o.at, err = a.Locate(asked.GetLocation()); err != nil {
		return err
	}
	logger, err := a.Logger(a.Err)
	if err != nil {
		return err
	}
	dir, err := a.StateDir()
	if err != nil {
		return err
	}
	if o.catalog, err = catalog.Open(filepath.Join(dir, "catalog"), catalog.Options{Logger: logger}); err != nil {
		return err
	}
	defer func() {
		if cerr := o.catalog.Close(); err == nil {
			err = cerr
		}
	}()
	if err := o.choose(); err != nil {
		return err
	}
	s, err := o.scanned(ctx, asked)
	if err == nil && s.GetTime() == nil {
		err = o.scan(ctx, asked)
	}
	if err != nil {
		return err
	}
	if err := answer(ctx, a, command, asked, c, o, body); err != nil {
		return err
	}
	if s, err = o.scanned(ctx, asked); err == nil && s.GetUnread() > 0 {
		return &cli.PartialError{Failed: s.GetUnread(), Err: fmt.Errorf("%w: what is in folders that could not be read is not known", mover.ErrPermission)}
	}
	return err
}

// choose finds the tree that the location is in: one that was scanned, or the location itself.
func (o *localCatalog) choose() error {
	whole := strings.TrimSuffix(o.at.String(), "/")
	o.tree = catalog.Tree{Tier: whole}
	states, err := o.catalog.Trees()
	if err != nil {
		return err
	}
	best := -1
	for _, s := range states {
		if rest, ok := strings.CutPrefix(whole, s.Tree.Tier); ok && !s.Scanned.IsZero() && (rest == "" || rest[0] == '/') && len(s.Tree.Tier) > best {
			best, o.tree, o.dir = len(s.Tree.Tier), s.Tree, strings.TrimPrefix(rest, "/")
		}
	}
	return nil
}

func (o *localCatalog) question(q *pb.Question) query.Question {
	return query.Question{Tree: o.tree, Dir: o.dir, Choice: query.ChoiceOf(q)}
}

func (o *localCatalog) reader(ctx context.Context) query.Reader {
	return query.Reader{Catalog: o.catalog, People: people{ctx, osaccount.New()}}
}

func (o *localCatalog) Find(ctx context.Context, r *pb.FindFilesRequest) iter.Seq2[*pb.FileInfo, error] {
	return func(yield func(*pb.FileInfo, error) bool) {
		by, err := query.Ordered(r.GetOrder())
		if err != nil {
			yield(nil, err)
			return
		}
		for f, err := range o.reader(ctx).Find(ctx, o.question(r.GetQuestion()), by, int(r.GetLimit())) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(f.Info(o.dir), nil) {
				return
			}
		}
	}
}

func (o *localCatalog) Sum(ctx context.Context, r *pb.SumFilesRequest) (*pb.SumFilesResponse, error) {
	by, err := query.Keyed(r.GetBy())
	if err != nil {
		return nil, err
	}
	sums, err := o.reader(ctx).Sum(ctx, o.question(r.GetQuestion()), by)
	if err != nil {
		return nil, err
	}
	out := &pb.SumFilesResponse{}
	for i := range sums {
		out.Sums = append(out.Sums, sums[i].Line())
	}
	out.Scan, err = o.scanned(ctx, r.GetQuestion())
	return out, err
}

func (o *localCatalog) scanned(context.Context, *pb.Question) (*pb.Scan, error) {
	s, err := o.catalog.State(o.tree)
	return query.ScanOf(&s), err
}

// scan scans the whole tree, of which the location may be a part.
func (o *localCatalog) scan(ctx context.Context, _ *pb.Question) error {
	at := o.at
	if o.dir != "" {
		var err error
		if at, err = location.Parse(o.tree.Tier); err != nil {
			return err
		}
		at.Tier = o.at.Tier // that of a bucket
	}
	told := time.Now()
	seen := func(t catalog.Tally) {
		if o.app.Quiet || time.Since(told) < TellEvery {
			return
		}
		told = time.Now()
		fmt.Fprintf(o.app.Err, "datamove: %s: scanning %s: %s of %s\n", o.command, mover.Printable(o.tree.Tier), units.Plural(t.Files, "file", "files"), units.Bytes(t.Bytes))
	}
	return engine.Visit(ctx, at, o.app.Open, func(place mover.Backend) error {
		_, err := o.catalog.Scan(ctx, o.tree, place, catalog.ScanOptions{Seen: seen})
		return err
	})
}

// TellEvery is the time between two words of how far a scan is.
const TellEvery = 10 * time.Second

// people are the names of accounts on this machine. It is a policy.People.
type people struct {
	ctx context.Context
	of  *osaccount.Directory
}

// User implements policy.People.
func (p people) User(uid uint32) (string, error) { return p.of.UserName(p.ctx, uid) }

// Group implements policy.People.
func (p people) Group(gid uint32) (string, error) { return p.of.GroupName(p.ctx, gid) }
