package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/pflag"

	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// answers is a catalog: that of a service, or of this process.
type answers interface {
	find(context.Context, *pb.FindFilesRequest) iter.Seq2[*pb.FileInfo, error]
	sum(context.Context, *pb.SumFilesRequest) (*pb.SumFilesResponse, error)
	// scanned says when what a question is about was scanned last, and scan has it scanned.
	scanned(context.Context, *pb.Question) (*pb.Scan, error)
	scan(context.Context, *pb.Question) error
}

// catalogued says how old an answer may be.
type catalogued struct{ maxAge time.Duration }

func (c *catalogued) flags(flags *pflag.FlagSet) {
	parsedVar(flags, &c.maxAge, "max-age", units.ParseSpan, "scan first when the last scan is older than this `TIME`, like 12h or 7d (default: take what is there)")
}

// catalogue asks the catalog of a location, and says how old the answer is.
func (a *app) catalogue(ctx context.Context, command string, asked *pb.Question, c catalogued, body func(context.Context, answers) error) error {
	address, err := a.service()
	if err != nil {
		return err
	}
	if address == "" {
		return a.catalogueHere(ctx, command, asked, c, body)
	}
	l, err := absolute(asked.GetLocation())
	if err != nil {
		return err
	}
	asked.Location = l.String()
	return a.ask(ctx, "datamove tier scan TIER, which brings a tier into the catalog", func(client *api.Client) error {
		return a.answer(ctx, command, asked, c, &theirs{a, client, command}, body)
	})
}

// answer scans first if need be.
func (a *app) answer(ctx context.Context, command string, asked *pb.Question, c catalogued, from answers, body func(context.Context, answers) error) error {
	s, err := from.scanned(ctx, asked)
	if err == nil && c.maxAge > 0 && (s.GetTime() == nil || time.Since(asOf(s).AsTime()) > c.maxAge) {
		if err = from.scan(ctx, asked); err == nil {
			s, err = from.scanned(ctx, asked)
		}
	}
	if err != nil {
		return err
	}
	if err := body(ctx, from); err != nil {
		return err
	}
	if s.GetTime() != nil && !a.quiet {
		unread := ""
		if n := s.GetUnread(); n > 0 {
			unread = fmt.Sprintf("; %s could not be read then", units.Plural(n, "folder", "folders"))
		}
		fmt.Fprintf(a.err, "datamove: %s: as it was %s ago%s\n", command, ago(asOf(s)), unread)
	}
	return nil
}

// asOf is of when a catalog is: of its last scan, or, where changes are heard of, of a moment ago.
func asOf(s *pb.Scan) *timestamppb.Timestamp {
	return cmp.Or(s.GetFollowing().GetTime(), s.GetTime())
}

// theirs is the catalog of a service.
type theirs struct {
	app     *app
	client  *api.Client
	command string
}

func (t *theirs) find(ctx context.Context, r *pb.FindFilesRequest) iter.Seq2[*pb.FileInfo, error] {
	return func(yield func(*pb.FileInfo, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := t.client.FindFiles(ctx, r)
		for err == nil {
			var m *pb.FindFilesResponse
			if m, err = stream.Recv(); err != nil {
				break
			}
			for _, f := range m.GetFiles() {
				if !yield(f, nil) {
					return
				}
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, err)
		}
	}
}

func (t *theirs) sum(ctx context.Context, r *pb.SumFilesRequest) (*pb.SumFilesResponse, error) {
	return t.client.SumFiles(ctx, r)
}

// scanned asks for no files, to hear how old all is: which tier a path is in the service knows.
func (t *theirs) scanned(ctx context.Context, q *pb.Question) (*pb.Scan, error) {
	answer, err := t.client.ListScans(ctx, &pb.ListScansRequest{Location: q.GetLocation(), Node: q.GetNode()})
	if err != nil || len(answer.GetScans()) == 0 {
		return nil, err
	}
	return answer.GetScans()[0], nil
}

func (t *theirs) scan(ctx context.Context, q *pb.Question) error {
	s, err := t.scanned(ctx, q)
	if err != nil {
		return err
	}
	if s == nil {
		return &mover.Error{Op: "scan", Place: q.GetLocation(), Err: mover.ErrNotExist}
	}
	_, err = t.app.scanThere(ctx, t.client, t.command, s.GetTier(), s.GetNode(), false)
	return err
}

// scanThere has a service scan a tier, and waits for the end, unless it is detached.
func (a *app) scanThere(ctx context.Context, c *api.Client, command, tier, node string, detach bool) ([]*pb.Task, error) {
	answer, err := c.ScanTier(ctx, &pb.ScanTierRequest{Tier: tier, Node: node})
	if err != nil {
		return nil, err
	}
	tasks := answer.GetTasks()
	for i, t := range tasks {
		if detach {
			if _, err := fmt.Fprintln(a.out, shown(t.GetId())); err != nil {
				return nil, err
			}
			continue
		}
		told := time.Now()
		last, err := c.Wait(ctx, t.GetId(), func(now *pb.Task) {
			if a.quiet || time.Since(told) < scanTold || now.GetWhy() == "" {
				return
			}
			told = time.Now()
			fmt.Fprintf(a.err, "datamove: %s: %s: %s\n", command, stateWord(now.GetState()), shown(now.GetWhy()))
		})
		if err != nil {
			return nil, advise(err, "datamove task wait "+shown(t.GetId())+": the scan goes on")
		}
		if err := endOf(last); err != nil {
			return nil, err
		}
		tasks[i] = last
	}
	return tasks, nil
}
