package aws

import (
	"slices"
	"time"
)

// The kinds of tasks, and the states that only tasks have.
const (
	exportTask  = "EXPORT_TO_REPOSITORY"
	importTask  = "IMPORT_METADATA_FROM_REPOSITORY"
	releaseTask = "RELEASE_DATA_FROM_FILESYSTEM"

	pending   = "PENDING"
	executing = "EXECUTING"
	succeeded = "SUCCEEDED"
	canceling = "CANCELING"
	canceled  = "CANCELED"
)

// dataTask is a data repository task, as DescribeDataRepositoryTasks tells it.
type dataTask struct {
	resource
	TaskID               string `json:"TaskId"`
	FileSystemID         string `json:"FileSystemId"`
	Lifecycle            string
	Type                 string
	StartTime            *epoch   `json:",omitempty"`
	EndTime              *epoch   `json:",omitempty"`
	Paths                []string `json:",omitempty"`
	FailureDetails       *details `json:",omitempty"`
	Status               *progress
	Report               *completion
	ReleaseConfiguration *release `json:",omitempty"`

	work     []string // what is still to do: names of files, or objects
	began    time.Time
	failures []failure
	ends     string // ordered by the test; "" is as it comes
	silent   bool   // ordered by the test: no report comes
	stalls   bool   // ordered by the test: it never begins
}

type progress struct {
	TotalCount, SucceededCount, FailedCount int
	LastUpdatedTime                         *epoch
}

type completion struct {
	Enabled *bool
	Path    string `json:",omitempty"`
	Format  string `json:",omitempty"`
	Scope   string `json:",omitempty"`
}

type release struct {
	DurationSinceLastAccess *struct {
		Unit  string
		Value *int64
	} `json:",omitempty"`
}

type createTask struct {
	ClientRequestToken   string
	FileSystemID         string `json:"FileSystemId"`
	Type                 string
	Paths                []string
	Report               *completion
	ReleaseConfiguration *release
	Tags                 []tag
}

func (t *dataTask) ended() bool {
	return t.Lifecycle == succeeded || t.Lifecycle == failed || t.Lifecycle == canceled
}

func (s *Server) createTask(c *call, in *createTask) (any, error) {
	f, err := s.system(c, in.FileSystemID)
	if err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	asked := parameters(*in, &in.ClientRequestToken)
	if old, err := again(s.tasks, c, in.ClientRequestToken, asked); old != nil || err != nil {
		return map[string]any{"DataRepositoryTask": old}, err
	}
	if err := s.mayWork(f, in); err != nil {
		return nil, err
	}
	t := s.newTask(c, in, asked)
	s.tasks = append(s.tasks, t)
	return map[string]any{"DataRepositoryTask": t}, nil
}

// check is of https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryTask.html and API_CompletionReport.html.
func (in *createTask) check() error {
	if err := oneOf("Type", in.Type, exportTask, importTask, releaseTask); err != nil {
		return err
	}
	if len(in.Paths) > 100 {
		return refuse("BadRequest", "%d Paths: at most 100", len(in.Paths))
	}
	for _, p := range in.Paths {
		if len(p) > 4096 || !plain(p) {
			return refuse("BadRequest", "the path %s: at most 4096 bytes, and no control characters", printable(p))
		}
	}
	if err := in.Report.check(); err != nil {
		return err
	}
	if r := in.ReleaseConfiguration; r != nil {
		d := r.DurationSinceLastAccess
		switch {
		case in.Type != releaseTask:
			return refuse("BadRequest", "ReleaseConfiguration is for %s", releaseTask)
		case d != nil && (d.Unit != "DAYS" || d.Value == nil || *d.Value < 0):
			return refuse("BadRequest", "DurationSinceLastAccess: a Value of 0 or more, in DAYS")
		}
	}
	return checkTags(in.Tags)
}

func (r *completion) check() error {
	switch {
	case r == nil || r.Enabled == nil:
		return refuse("BadRequest", "Report.Enabled is required")
	case !*r.Enabled && (r.Path != "" || r.Format != "" || r.Scope != ""):
		return refuse("BadRequest", "Report has a Path, Format or Scope, and is not Enabled")
	case *r.Enabled && (r.Format != "REPORT_CSV_20191124" || r.Scope != "FAILED_FILES_ONLY" || !bucketPath().MatchString(r.Path)):
		return refuse("BadRequest", "an enabled Report has Format REPORT_CSV_20191124, Scope FAILED_FILES_ONLY, and a Path s3://...")
	}
	return nil
}

// mayWork says whether a file system takes a task now.
func (s *Server) mayWork(f *fileSystem, in *createTask) error {
	links := s.linked(f.id)
	switch {
	case f.Lifecycle != available:
		return refuse("BadRequest", "File system %s is %s.", f.id, f.Lifecycle)
	case len(links) == 0:
		return refuse("UnsupportedOperation", "File system %s is not linked to a data repository.", f.id)
	case in.Report.Path != "" && !slices.ContainsFunc(links, func(a *association) bool { return within(in.Report.Path, a.DataRepositoryPath) }):
		return refuse("BadRequest", "Report.Path %s is in no data repository of %s", printable(in.Report.Path), f.id)
	}
	for _, a := range links {
		if in.Type == exportTask && a.exports() {
			return refuse("BadRequest", "File system %s exports by itself (%s): an export task is not possible meanwhile", f.id, a.id)
		}
	}
	for _, t := range s.tasks {
		if t.FileSystemID == f.id && !t.ended() {
			return refuse("DataRepositoryTaskExecuting", "Data repository task %s is %s.", t.id, t.Lifecycle)
		}
	}
	return nil
}

func (s *Server) newTask(c *call, in *createTask, asked string) *dataTask {
	t := &dataTask{
		FileSystemID: in.FileSystemID, Lifecycle: pending, Type: in.Type, Paths: in.Paths, Report: in.Report, ReleaseConfiguration: in.ReleaseConfiguration,
		Status: &progress{LastUpdatedTime: at(c.at)},
	}
	t.resource = s.newResource(c, "task", "task", in.Tags, in.ClientRequestToken, asked)
	t.TaskID = t.id
	t.due = c.at.Add(s.opts.Lasts.Pending)
	t.stalls = c.faults[Stalls]
	switch t.silent = c.faults[NoReport]; {
	case c.faults[EndsFailed]:
		t.ends = failed
	case c.faults[EndsSucceeded]:
		t.ends = succeeded
	}
	return t
}

func (s *Server) describeTasks(c *call, in *struct {
	TaskIDs    []string `json:"TaskIds"`
	Filters    []filter
	MaxResults *int
	NextToken  string
}) (any, error) {
	all, err := named(s.tasks, c, in.TaskIDs, s.noTask)
	if err != nil {
		return nil, err
	}
	if len(in.Filters) > 3 {
		return nil, refuse("BadRequest", "%d Filters: at most 3", len(in.Filters))
	}
	for _, f := range in.Filters {
		if err := oneOf("Filters.Name", f.Name, "file-system-id", "task-lifecycle", "data-repository-association-id"); err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(t *dataTask) bool { return !s.passes(t, f) })
	}
	part, next, err := page(all, in.MaxResults, 50, in.NextToken)
	return listing("DataRepositoryTasks", part, next), err
}

func (s *Server) passes(t *dataTask, f filter) bool {
	switch f.Name {
	case "file-system-id":
		return slices.Contains(f.Values, t.FileSystemID)
	case "task-lifecycle":
		return slices.Contains(f.Values, t.Lifecycle)
	}
	return slices.ContainsFunc(s.linked(t.FileSystemID), func(a *association) bool { return slices.Contains(f.Values, a.id) })
}

func (s *Server) noTask(id string) error {
	return refuse("DataRepositoryTaskNotFound", "Data repository task %s does not exist.", printable(id))
}

// cancelTask stops a task. What it has done stays done.
func (s *Server) cancelTask(c *call, in *struct {
	TaskID string `json:"TaskId"`
}) (any, error) {
	one, err := named(s.tasks, c, []string{in.TaskID}, s.noTask)
	if err != nil {
		return nil, err
	}
	t := one[0]
	if t.ended() {
		return nil, refuse("DataRepositoryTaskEnded", "Data repository task %s is %s.", t.id, t.Lifecycle)
	}
	t.Lifecycle, t.due = canceling, c.at.Add(s.opts.Lasts.Pending)
	return map[string]any{"TaskId": t.id, "Lifecycle": t.Lifecycle}, nil
}
