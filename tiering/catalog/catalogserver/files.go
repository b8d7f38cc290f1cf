package catalogserver

import (
	"cmp"
	"context"
	"path"
	"strings"

	"google.golang.org/grpc"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/server/authz"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/query"
)

// filesAtOnce are in one message.
const filesAtOnce = 500

// textMost bounds the texts of a question.
const textMost = 64 << 10

// FindFiles implements pb.CatalogServiceServer.
func (s *Server) FindFiles(r *pb.FindFilesRequest, out grpc.ServerStreamingServer[pb.FindFilesResponse]) error {
	order, err := query.Ordered(r.GetOrder())
	if err != nil {
		return err
	}
	if r.GetLimit() < 0 {
		return mover.Usagef("the limit is %d", r.GetLimit())
	}
	reader, q, err := s.Question(out.Context(), r.GetQuestion())
	if err != nil {
		return err
	}
	m := &pb.FindFilesResponse{}
	for f, err := range reader.Find(out.Context(), q, order, int(r.GetLimit())) {
		if err != nil {
			return err
		}
		if m.Files = append(m.Files, f.Info(q.Dir)); len(m.Files) < filesAtOnce {
			continue
		}
		if err := out.Send(m); err != nil {
			return err
		}
		m = &pb.FindFilesResponse{}
	}
	if len(m.Files) == 0 {
		return nil
	}
	return out.Send(m)
}

// SumFiles implements pb.CatalogServiceServer.
func (s *Server) SumFiles(ctx context.Context, r *pb.SumFilesRequest) (*pb.SumFilesResponse, error) {
	by, err := query.Keyed(r.GetBy())
	if err != nil {
		return nil, err
	}
	reader, q, err := s.Question(ctx, r.GetQuestion())
	if err != nil {
		return nil, err
	}
	sums, err := reader.Sum(ctx, q, by)
	if err != nil {
		return nil, err
	}
	state, err := s.o.Catalog.State(q.Tree)
	if err != nil {
		return nil, err
	}
	out := &pb.SumFilesResponse{Scan: query.ScanOf(&state)}
	for i := range sums {
		out.Sums = append(out.Sums, sums[i].Line())
	}
	return out, nil
}

// Question finds out what is asked, and what the caller may see of it: everything of a location that it may use, if a role says so, and else what is
// its own. Objects without an owner, as in most buckets, are visible to each caller that may use the location.
func (s *Server) Question(ctx context.Context, asked *pb.Question) (r query.Reader, q query.Question, err error) {
	c := authz.From(ctx)
	if s.o.Catalog == nil {
		return r, q, errNoCatalog
	}
	for _, text := range []string{asked.GetMatch(), asked.GetWhere(), asked.GetClasses()} {
		if len(text) > textMost {
			return r, q, mover.Usagef("a question of %d bytes; at most %d", len(text), textMost)
		}
	}
	if q.Tree, q.Dir, err = s.catalogued(c, asked); err != nil {
		return r, q, err
	}
	if err := s.o.Rules().MayUseAt(c, asked.GetProject(), asked.GetLocation(), false); err != nil {
		return r, q, err
	}
	if !s.seesAll(c) {
		q.Owner = &c.UID
	}
	q.Choice = query.ChoiceOf(asked)
	q.Now = s.now()
	g, err := s.o.Datasets.Tree(q.Tree)
	return query.Reader{Catalog: s.o.Catalog, People: s.o.People, Ground: g.Ground}, q, err
}

// seesAll says whether a caller may see the names of what is not its own.
func (s *Server) seesAll(c authz.Caller) bool {
	return s.o.Rules().May(c, authz.OfMethod(pb.CatalogService_FindFiles_FullMethodName).Action+".any").Allowed
}

// catalogued finds the tree that a location is in, and its directory there.
func (s *Server) catalogued(c authz.Caller, asked *pb.Question) (tree catalog.Tree, dir string, err error) {
	l, err := placement.InTier(asked.GetLocation(), s.conf())
	if err != nil {
		return tree, "", err
	}
	conf := s.conf()
	tier, local, err := placement.TierOf(l, s.conf())
	switch {
	case err != nil:
		return tree, "", err
	case tier == "":
		return tree, "", &mover.Error{Op: "find", Location: asked.GetLocation(), Err: mover.Because(mover.ErrUsage, "it is in no tier of the service, and only those are catalogued: name it as TIER:path")}
	}
	tree.Tier = tier
	if local {
		tree.Node = cmp.Or(asked.GetNode(), c.Agent, s.o.Node)
	}
	dir = l.Path
	if l.IsPath() {
		dir = strings.TrimPrefix(path.Clean(l.Path), path.Clean(conf.Tiers[tier].Path))
	}
	dir = strings.Trim(dir, "/")
	if !mover.ValidName(dir) {
		err = mover.Usagef("%s is no location of files", mover.Printable(asked.GetLocation()))
	}
	return tree, dir, err
}
