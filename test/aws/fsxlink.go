package aws

import (
	"context"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
)

// association links a directory of a file system with a prefix of a bucket, as DescribeDataRepositoryAssociations tells it.
type association struct {
	resource
	AssociationID               string `json:"AssociationId"`
	FileSystemID                string `json:"FileSystemId"`
	FileSystemPath              string
	DataRepositoryPath          string
	Lifecycle                   string
	FailureDetails              *details `json:",omitempty"`
	BatchImportMetaDataOnCreate bool
	ImportedFileChunkSize       int
	S3                          *policies `json:",omitempty"`
}

type policies struct {
	AutoImportPolicy *events `json:",omitempty"`
	AutoExportPolicy *events `json:",omitempty"`
}

type events struct{ Events []string }

type createAssociation struct {
	ClientRequestToken          string
	FileSystemID                string `json:"FileSystemId"`
	FileSystemPath              string
	DataRepositoryPath          string
	BatchImportMetaDataOnCreate bool
	ImportedFileChunkSize       *int
	S3                          *policies
	Tags                        []tag
}

const mostAssociations = 8 // of a file system

var bucketPath = mover.Pattern(`^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?$`)

func (s *Server) createAssociation(c *call, in *createAssociation) (any, error) {
	f, err := s.system(c, in.FileSystemID)
	if err != nil {
		return nil, err
	}
	if err := in.check(s); err != nil {
		return nil, err
	}
	asked := parameters(*in, &in.ClientRequestToken)
	if old, err := again(s.associations, c, in.ClientRequestToken, asked); old != nil || err != nil {
		return map[string]any{"Association": old}, err
	}
	if err := s.mayLink(f, in); err != nil {
		return nil, err
	}
	a := s.newAssociation(c, in, asked)
	s.associations = append(s.associations, a)
	return map[string]any{"Association": a}, nil
}

func (in *createAssociation) check(s *Server) error {
	if !strings.HasPrefix(in.FileSystemPath, "/") || !plain(in.FileSystemPath) {
		return refuse("BadRequest", "FileSystemPath %s begins with / and has no control characters", printable(in.FileSystemPath))
	}
	if !bucketPath().MatchString(in.DataRepositoryPath) || !plain(in.DataRepositoryPath) {
		return refuse("BadRequest", "DataRepositoryPath %s is s3://bucket or s3://bucket/prefix/", printable(in.DataRepositoryPath))
	}
	if n := in.ImportedFileChunkSize; n != nil && (*n < 1 || *n > 512000) {
		return refuse("BadRequest", "ImportedFileChunkSize %d MiB: 1 to 512000", *n)
	}
	if s.opts.Store == nil {
		return refuse("BadRequest", "this fake was given no S3 (Options.Store)")
	}
	if err := in.S3.check(); err != nil {
		return err
	}
	return checkTags(in.Tags)
}

func (p *policies) check() error {
	if p == nil {
		return nil
	}
	for _, e := range []*events{p.AutoImportPolicy, p.AutoExportPolicy} {
		for i := 0; e != nil && i < len(e.Events); i++ {
			if err := oneOf("Events", e.Events[i], "NEW", "CHANGED", "DELETED"); err != nil {
				return err
			}
		}
	}
	return nil
}

// exports says whether files go out by themselves.
func (a *association) exports() bool {
	return a.S3 != nil && a.S3.AutoExportPolicy != nil && len(a.S3.AutoExportPolicy.Events) > 0
}

// plain is what FSx lets a path have.
func plain(path string) bool {
	return len(path) <= 4357 && !strings.ContainsAny(path, "\x00\r\n\u0085\u2028\u2029")
}

// mayLink is of https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryAssociation.html.
func (s *Server) mayLink(f *fileSystem, in *createAssociation) error {
	others := s.linked(f.id)
	switch {
	case f.LustreConfiguration.DeploymentType == "SCRATCH_1" || f.FileSystemTypeVersion == "2.10":
		return refuse("UnsupportedOperation", "File system %s is %s with Lustre %s: associations need 2.12 or 2.15, and not SCRATCH_1.", f.id, f.LustreConfiguration.DeploymentType, f.FileSystemTypeVersion)
	case f.Lifecycle != available:
		return refuse("BadRequest", "File system %s is %s.", f.id, f.Lifecycle)
	case len(others) >= mostAssociations:
		return refuse("BadRequest", "File system %s has %d data repository associations.", f.id, mostAssociations) // the Limit of ServiceLimitExceeded has no name for it
	case directory(in.FileSystemPath) == "/" && len(others) > 0:
		return refuse("BadRequest", "the path / is only for the first association of a file system")
	}
	for _, a := range others {
		if within(in.FileSystemPath, a.FileSystemPath) || within(a.FileSystemPath, in.FileSystemPath) {
			return refuse("BadRequest", "FileSystemPath %s overlaps %s of %s", printable(in.FileSystemPath), printable(a.FileSystemPath), a.id)
		}
		if within(in.DataRepositoryPath, a.DataRepositoryPath) || within(a.DataRepositoryPath, in.DataRepositoryPath) {
			return refuse("BadRequest", "DataRepositoryPath %s overlaps %s of %s", printable(in.DataRepositoryPath), printable(a.DataRepositoryPath), a.id)
		}
	}
	return nil
}

// directory has a / at its end.
func directory(path string) string { return strings.TrimRight(path, "/") + "/" }

func within(path, of string) bool { return strings.HasPrefix(directory(path), directory(of)) }

func (s *Server) linked(system string) (all []*association) {
	for _, a := range s.associations {
		if a.FileSystemID == system {
			all = append(all, a)
		}
	}
	return all
}

func (s *Server) newAssociation(c *call, in *createAssociation, asked string) *association {
	a := &association{
		FileSystemID: in.FileSystemID, FileSystemPath: in.FileSystemPath, DataRepositoryPath: in.DataRepositoryPath, Lifecycle: creating,
		BatchImportMetaDataOnCreate: in.BatchImportMetaDataOnCreate, ImportedFileChunkSize: 1024, S3: in.S3,
	}
	if in.ImportedFileChunkSize != nil {
		a.ImportedFileChunkSize = *in.ImportedFileChunkSize
	}
	a.resource = s.newResource(c, "dra", "association/"+in.FileSystemID, in.Tags, in.ClientRequestToken, asked)
	a.AssociationID = a.id
	a.due, a.then = c.at.Add(s.opts.Lasts.Link), available
	switch {
	case c.faults[EndsFailed]:
		a.then, a.why = failed, "ordered by the test"
	case c.faults[EndsMisconfigured]:
		a.then, a.why = misconfigured, "ordered by the test: the bucket does not let FSx in"
	}
	return a
}

func (s *Server) noAssociation(id string) error {
	return refuse("DataRepositoryAssociationNotFound", "Data repository association %s does not exist.", printable(id))
}

func (s *Server) describeAssociations(c *call, in *struct {
	AssociationIDs []string `json:"AssociationIds"`
	Filters        []filter
	MaxResults     *int
	NextToken      string
}) (any, error) {
	all, err := named(s.associations, c, in.AssociationIDs, s.noAssociation)
	if err != nil {
		return nil, err
	}
	for _, f := range in.Filters {
		if err := oneOf("Filters.Name", f.Name, "file-system-id", "data-repository-type"); err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(a *association) bool {
			return !slices.Contains(f.Values, map[string]string{"file-system-id": a.FileSystemID, "data-repository-type": "S3"}[f.Name])
		})
	}
	if in.MaxResults != nil && *in.MaxResults > 25 {
		return nil, refuse("BadRequest", "MaxResults is %d: at most 25", *in.MaxResults)
	}
	part, next, err := page(all, in.MaxResults, 25, in.NextToken)
	return listing("Associations", part, next), err
}

type filter struct {
	Name   string
	Values []string
}

// updateAssociation changes what goes in and out by itself; it is done at once, and AWS takes longer.
func (s *Server) updateAssociation(c *call, in *struct {
	ClientRequestToken    string
	AssociationID         string `json:"AssociationId"`
	ImportedFileChunkSize *int
	S3                    *policies
}) (any, error) {
	one, err := named(s.associations, c, []string{in.AssociationID}, s.noAssociation)
	if err != nil {
		return nil, err
	}
	a := one[0]
	if err := in.S3.check(); err != nil {
		return nil, err
	}
	if a.Lifecycle != available && a.Lifecycle != misconfigured {
		return nil, refuse("BadRequest", "Data repository association %s is %s.", a.id, a.Lifecycle)
	}
	if in.ImportedFileChunkSize != nil {
		a.ImportedFileChunkSize = *in.ImportedFileChunkSize
	}
	if in.S3 != nil {
		a.S3 = in.S3
	}
	return map[string]any{"Association": a}, nil
}

func (s *Server) deleteAssociation(c *call, in *struct {
	ClientRequestToken     string
	AssociationID          string `json:"AssociationId"`
	DeleteDataInFileSystem bool
}) (any, error) {
	one, err := named(s.associations, c, []string{in.AssociationID}, s.noAssociation)
	if err != nil {
		return nil, err
	}
	a := one[0]
	if a.Lifecycle != deleting {
		a.Lifecycle, a.due, a.then = deleting, c.at.Add(s.opts.Lasts.Link), gone
		if in.DeleteDataInFileSystem {
			s.byID(a.FileSystemID).tree.drop(a.FileSystemPath)
		}
	}
	return map[string]any{"AssociationId": a.id, "Lifecycle": a.Lifecycle, "DeleteDataInFileSystem": in.DeleteDataInFileSystem}, nil
}

// settleAssociations has associations become what they are due to be, and what they do by themselves.
func (s *Server) settleAssociations(ctx context.Context, now time.Time) {
	for _, a := range s.associations {
		if !a.due.IsZero() && !now.Before(a.due) {
			s.turn(a)
		}
		if a.Lifecycle == available && a.exports() {
			s.exportByItself(ctx, a, now)
		}
	}
	s.associations = slices.DeleteFunc(s.associations, func(a *association) bool { return a.Lifecycle == gone })
}

// turn has one become what it is due to be. Where metadata are to be imported then, that is a task as any other, as documented: meanwhile there can be no second one.
func (s *Server) turn(a *association) {
	when := a.due
	a.Lifecycle, a.due = a.then, time.Time{}
	if a.Lifecycle == failed || a.Lifecycle == misconfigured {
		a.FailureDetails = &details{a.why}
	}
	if a.Lifecycle == available && a.BatchImportMetaDataOnCreate {
		c := &call{service: &fsxService, region: a.region, at: when}
		in := &createTask{FileSystemID: a.FileSystemID, Type: importTask, Paths: []string{a.DataRepositoryPath}, Report: &completion{Enabled: new(bool)}}
		s.tasks = append(s.tasks, s.newTask(c, in, ""))
	}
}

// Misconfigure has an association be MISCONFIGURED from now on, as when its bucket lets FSx in no more; with fixed it is AVAILABLE again.
func (s *Server) Misconfigure(id string, fixed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.associations {
		if a.id != id {
			continue
		}
		a.Lifecycle, a.FailureDetails, a.due = misconfigured, &details{"ordered by the test"}, time.Time{}
		if fixed {
			a.Lifecycle, a.FailureDetails = available, nil
		}
	}
}
