// Package catalog asks the catalog of a location: that of the service, or one of this process in the directory of its state.
//
// It owns the question ([Filter], the flags that are clauses of a policy), how old an answer may be ([Freshness]), and the choice of the catalog ([Ask]).
// The commands find, usage and policy explain print what it answers. test/script/usage.txt is a session with a catalog of this process.
package catalog

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
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Reader is a catalog: that of a service, or of this process.
type Reader interface {
	Find(context.Context, *pb.FindFilesRequest) iter.Seq2[*pb.FileInfo, error]
	Sum(context.Context, *pb.SumFilesRequest) (*pb.SumFilesResponse, error)
	// scanned says when what a question is about was scanned last, and scan has it scanned.
	scanned(context.Context, *pb.Question) (*pb.Scan, error)
	scan(context.Context, *pb.Question) error
}

// Freshness says how old an answer may be.
type Freshness struct{ maxAge time.Duration }

// Flags adds --max-age.
func (c *Freshness) Flags(flags *pflag.FlagSet) {
	cli.ParsedVar(flags, &c.maxAge, "max-age", units.ParseSpan, "scan first when the last scan is older than this `TIME`, like 12h or 7d (default: take what is there)")
}

// Ask asks the catalog of a location, and says how old the answer is.
func Ask(ctx context.Context, a *cli.App, command string, asked *pb.Question, c Freshness, body func(context.Context, Reader) error) error {
	address, err := a.Service()
	if err != nil {
		return err
	}
	if address == "" {
		return askHere(ctx, a, command, asked, c, body)
	}
	l, err := cli.ParseLocation(asked.GetLocation())
	if err != nil {
		return err
	}
	asked.Location = l.String()
	return a.AskService(ctx, "datamove tier scan TIER, which brings a tier into the catalog", func(client *api.Client) error {
		return answer(ctx, a, command, asked, c, &remoteCatalog{a, client, command}, body)
	})
}

// answer scans first if need be.
func answer(ctx context.Context, a *cli.App, command string, asked *pb.Question, c Freshness, from Reader, body func(context.Context, Reader) error) error {
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
	if s.GetTime() != nil && !a.Quiet {
		unread := ""
		if n := s.GetUnread(); n > 0 {
			unread = fmt.Sprintf("; %s could not be read then", units.Plural(n, "folder", "folders"))
		}
		fmt.Fprintf(a.Err, "datamove: %s: as it was %s ago%s\n", command, cli.Ago(asOf(s)), unread)
	}
	return nil
}

// asOf is of when a catalog is: of its last scan, or, where changes are heard of, of a moment ago.
func asOf(s *pb.Scan) *timestamppb.Timestamp {
	return cmp.Or(s.GetFollowing().GetTime(), s.GetTime())
}

// remoteCatalog is the catalog of a service.
type remoteCatalog struct {
	app     *cli.App
	client  *api.Client
	command string
}

func (t *remoteCatalog) Find(ctx context.Context, r *pb.FindFilesRequest) iter.Seq2[*pb.FileInfo, error] {
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

func (t *remoteCatalog) Sum(ctx context.Context, r *pb.SumFilesRequest) (*pb.SumFilesResponse, error) {
	return t.client.SumFiles(ctx, r)
}

// scanned asks for no files, to hear how old all is: which tier a path is in the service knows.
func (t *remoteCatalog) scanned(ctx context.Context, q *pb.Question) (*pb.Scan, error) {
	answer, err := t.client.ListScans(ctx, &pb.ListScansRequest{Location: q.GetLocation(), Node: q.GetNode()})
	if err != nil || len(answer.GetScans()) == 0 {
		return nil, err
	}
	return answer.GetScans()[0], nil
}

func (t *remoteCatalog) scan(ctx context.Context, q *pb.Question) error {
	s, err := t.scanned(ctx, q)
	if err != nil {
		return err
	}
	if s == nil {
		return &mover.Error{Op: "scan", Location: q.GetLocation(), Err: mover.ErrNotExist}
	}
	_, err = Scan(ctx, t.app, t.client, t.command, s.GetTier(), s.GetNode(), false)
	return err
}

// Scan has a service scan a tier, and waits for the end, unless it is detached.
func Scan(ctx context.Context, a *cli.App, c *api.Client, command, tier, node string, detach bool) ([]*pb.Task, error) {
	answer, err := c.ScanTier(ctx, &pb.ScanTierRequest{Tier: tier, Node: node})
	if err != nil {
		return nil, err
	}
	tasks := answer.GetTasks()
	for i, t := range tasks {
		if detach {
			if _, err := fmt.Fprintln(a.Out, cli.Shown(t.GetId())); err != nil {
				return nil, err
			}
			continue
		}
		told := time.Now()
		last, err := c.Wait(ctx, t.GetId(), func(now *pb.Task) {
			if a.Quiet || time.Since(told) < TellEvery || now.GetWhy() == "" {
				return
			}
			told = time.Now()
			fmt.Fprintf(a.Err, "datamove: %s: %s: %s\n", command, cli.StateWord(now.GetState()), cli.Shown(now.GetWhy()))
		})
		if err != nil {
			return nil, cli.Advise(err, "datamove task wait "+cli.Shown(t.GetId())+": the scan goes on")
		}
		if err := task.EndError(last); err != nil {
			return nil, err
		}
		tasks[i] = last
	}
	return tasks, nil
}
