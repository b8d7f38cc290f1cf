package burstbuffer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/location"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

// Controller does the phases of jobs.
type Controller struct {
	Config  *config.Config
	Records string // directory of the records
	Name    string // what Slurm calls the cluster; "" is not known
	Dial    func(context.Context) (*api.Client, error)
	Told    func(what string) // how far it is; nil reports nothing
	// Room refuses a directory, which there may not be yet, where nothing more can be written, as far as is seen from here; nil looks nowhere.
	Room func(ctx context.Context, dir string) error

	// Comment adds a text to what Slurm keeps with a job for its administrators, or, of one that has ended, in its accounting; nil adds nothing.
	Comment func(ctx context.Context, job, text string, ended bool) error

	Step func() // before each change of a record, where a test has the process die; nil does nothing
}

// glance is how long a question to the mover may take at submit: a person waits, and with it Slurm.
const glance = 2 * time.Second

// Process checks what a job asks for, and returns it in words. What can be seen to be missing now is said now; a mover that is away does not
// stop a job from being submitted.
func (c *Controller) Process(ctx context.Context, text directive.Text) ([]string, error) {
	job, err := directive.Parse(text, TiersOf(c.Config))
	if err != nil || job.Empty() {
		return nil, err
	}
	if err := errors.Join(c.foreseen(job, text), c.most(job.Bytes())); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	if err := c.present(ctx, job, directive.Depends(text)); err != nil && !away(err) {
		return nil, err
	}
	if err := c.leavesRoom(ctx, job); err != nil {
		return nil, err
	}
	return job.Summary(), nil
}

// foreseen refuses what needs to be known before the job has a node, and is not, and names that can not be.
func (c *Controller) foreseen(job directive.Job, text directive.Text) error {
	s := site{tiers: TiersOf(c.Config), own: slurm.Job{Cluster: c.Config.Slurm.Cluster, ID: 1, UID: 1}, values: directive.Values{Job: "1", User: "user"}}
	if _, err := s.shared(job); err != nil {
		return fmt.Errorf("%w before the job begins, and this is staged before it", err)
	}
	if text.Single && job.Uses("%a") {
		return fmt.Errorf("%w: %%a is the task of an array, and this job is none: leave it out, or submit with --array", mover.ErrUsage)
	}
	s.values = directive.Values{Job: "1", User: "user", Name: cmp.Or(text.Name, "name"), Task: "1"}
	deeds, err := s.arriving(job, []string{"node"})
	err = errors.Join(err, s.names(job, []string{"node"}))
	for _, d := range deeds {
		d.node = ""
		if h := s.holder(d); d.dataset && (len(h)+len(mostJob) > holderMost || mover.Printable(h) != h) {
			return fmt.Errorf("%w: %s: no job can hold it by this name, which is too long, or has letters that are not shown as they are: name another target", mover.ErrUsage, d.request.Summary())
		}
	}
	return err
}

const (
	holderMost = 256 // bytes of the name of a holder that the mover takes
	mostJob    = "4294967295"
)

// present looks whether the datasets are there that a job wants, and are not more than it may have. Where later is set an earlier job may add those that
// are not; when the job is staged in it is held without them.
func (c *Controller) present(ctx context.Context, job directive.Job, later bool) error {
	sum, onNodes := job.Bytes(), spaceOf(job)
	client, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	for r := range job.Of(directive.StageIn) {
		if !r.From.IsDataset() {
			continue
		}
		v, err := versionOf(ctx, client, r.From)
		if later && errors.Is(err, mover.ErrNotExist) {
			continue
		}
		if errors.Is(err, mover.ErrNotExist) {
			err = fmt.Errorf("%s: %w; datamove dataset list shows those that there are; where an earlier job adds it, write #DATAMOVE depends", r.Summary(), err)
		}
		if err != nil {
			return err
		}
		if sum += v.GetBytes(); sum < 0 {
			sum = math.MaxInt64
		}
		if to := r.To[0].Tier; c.Config.Tiers[to].NodeLocal {
			onNodes[to] += v.GetBytes()
		}
	}
	return errors.Join(c.most(sum), nodesTake(ctx, client, onNodes))
}

// versionOf is the version of a dataset that a location means.
func versionOf(ctx context.Context, client *api.Client, l location.Location) (*datamovev1.Version, error) {
	d, err := client.GetDataset(ctx, &datamovev1.GetDatasetRequest{Name: l.Name})
	if err != nil {
		return nil, err
	}
	for _, v := range d.GetVersions() {
		if l.Digest == "" || v.GetDigest() == l.Digest {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%w: the dataset %s has no version %s", mover.ErrNotExist, l.Name, l.Digest)
}

func (c *Controller) most(sum int64) error {
	if most := int64(c.Config.Slurm.Most); most > 0 && sum > most {
		return fmt.Errorf("%w: the job asks for %s, and one job may have %s staged (slurm.most)", mover.ErrRefused, units.Bytes(sum), units.Bytes(most))
	}
	return nil
}

// away says whether an error is about a mover that is not there, or not at its best.
func away(err error) bool {
	return errors.Is(err, mover.ErrUnreachable) || errors.Is(err, mover.ErrTransient) || errors.Is(err, mover.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
}

// Setup remembers what a job asks for, and its user. It ends an earlier run of the job that was never torn down, because Slurm has killed its teardown.
func (c *Controller) Setup(own slurm.Job, text directive.Text) error {
	if own.UID == 0 {
		return fmt.Errorf("%w: root's jobs have nothing staged", mover.ErrRefused)
	}
	asked, array, err := c.asked(own.ID, text)
	if err != nil {
		return err
	}
	return c.records().locked(func() error {
		last, err := c.records().load(own.ID, fileJob)
		if err == nil {
			if err := c.records().end(last, false); err != nil {
				return err
			}
		} else if !errors.Is(err, mover.ErrNotExist) {
			c.tell("what an earlier run of it has left is not known, and stays: %v", err)
		}
		return c.records().save(Record{Job: own.ID, UID: own.UID, GID: own.GID, User: own.User, Array: array, Asked: asked, Began: time.Now().UTC()})
	})
}

// asked reads what a job asks for, and the id of its array, of a text in which Slurm has replaced patterns: a name of the job with a blank or a slash in it would be
// words, or other directories. So the script as it was submitted is read, where it is found.
func (c *Controller) asked(job uint32, text directive.Text) (asked directive.Job, array string, err error) {
	whole := text
	if whole.Script, err = c.submitted(job); err == nil {
		asked, err = directive.Parse(whole, TiersOf(c.Config))
		return asked, directive.ArrayOf(whole.Script, text.Script), err
	}
	asked, err = directive.Parse(text, TiersOf(c.Config))
	if err == nil {
		return asked, "", nil
	}
	text.Script = strings.ReplaceAll(text.Script, "%", "%%") // what is left of "%%" is no pattern
	asked, wrong := directive.Parse(text, TiersOf(c.Config))
	if wrong == nil {
		err = nil
	}
	return asked, "", err
}

// Nodes remembers where a job runs. It may come before, beside or after Before.
func (c *Controller) Nodes(job uint32, p Place) error {
	if err := c.records().drop(job, fileEnd); err != nil { // of an earlier run, which was told late
		return err
	}
	return c.beside(job, filePlace, p)
}

// Ended remembers how a job has ended.
func (c *Controller) Ended(job uint32, e End) error { return c.beside(job, fileEnd, e) }

// beside writes a file of a job that has a record.
func (c *Controller) beside(job uint32, what string, x any) error {
	if _, err := c.records().load(job, fileJob); errors.Is(err, mover.ErrNotExist) {
		return nil // it asks for nothing
	}
	return c.records().write(job, what, x)
}

func (c *Controller) records() records { return records{c.Records, c.Step} }

// TiersOf are those of a configuration, as directives see them.
func TiersOf(c *config.Config) directive.Tiers {
	t := directive.Tiers{Named: map[string]directive.Tier{}}
	t.Scratch, _ = c.ScratchTier() // without one nothing is brought to jobs' directories, and a job that asks for it is refused
	for name, x := range c.Tiers {
		d := directive.Tier{Level: directive.Level(x.Level), Path: x.Path, NodeLocal: x.NodeLocal, Ephemeral: x.Ephemeral}
		if x.S3 != nil {
			d.Bucket, d.Prefix = x.S3.Bucket, x.S3.Prefix
		}
		t.Named[name] = d
	}
	return t
}

// work is a phase of one job at the mover.
type work struct {
	*Controller
	Record
	site
	stage  *datasetclient.Mover
	staged Staged
	waits  string // what is remembered of it as waiting
}

// begin loads the record of a job, and looks once more whether it may ask for what it does. The work has to be closed.
func (c *Controller) begin(job uint32) (*work, error) {
	x, err := c.records().load(job, fileJob)
	if err == nil {
		err = x.Asked.Check(TiersOf(c.Config))
	}
	if err != nil {
		return nil, err
	}
	w := c.work(x)
	if err := c.records().drop(job, fileWaits); err != nil { // of a phase that was killed
		w.tell("what it waited for is shown still: %v", err)
	}
	if err := c.records().read(job, fileStaged, &w.staged); err != nil && !errors.Is(err, mover.ErrNotExist) {
		w.tell("what was staged for it where all nodes see it is not known: %v", err)
	}
	w.versions = w.staged.Versions
	return w, nil
}

func (c *Controller) work(x Record) *work {
	id := strconv.FormatUint(uint64(x.Job), 10)
	user := cmp.Or(x.User, strconv.FormatUint(uint64(x.UID), 10))
	s := site{tiers: TiersOf(c.Config), own: slurm.Job{Cluster: c.Config.Slurm.Cluster, ID: x.Job, UID: x.UID, GID: x.GID}, values: directive.Values{Job: id, Array: x.Array, User: user}}
	labels := s.own.Labels()
	labels[slurm.RunLabel] = x.RunID()
	if s.own.Cluster == "" && c.Name != "" {
		labels[slurm.NameLabel] = c.Name
	}
	return &work{Controller: c, Record: x, site: s, stage: &datasetclient.Mover{Dial: c.Dial, Label: slurm.CopyLabel, Labels: labels, TTL: slurm.LeaseTTL}}
}

// labels are those of all that is asked for a job of this cluster.
func (c *Controller) labels(job uint32) map[string]string {
	return slurm.Job{Cluster: c.Config.Slurm.Cluster, ID: job}.Labels()
}

// RunID tells the runs of a job apart: what an earlier one has left to be brought away is not a later one's to stop.
func (x Record) RunID() string { return strconv.FormatInt(x.Began.UnixNano(), 10) }

func (w *work) close() { _ = w.stage.Close() }

// at has the values that are known where the job runs.
func (w *work) at(p Place) {
	w.values.Name, w.values.Array, w.values.Task = p.Name, p.Array, p.Task
}

func (c *Controller) tell(format string, a ...any) {
	if c.Told != nil {
		c.Told(fmt.Sprintf(format, a...))
	}
}
