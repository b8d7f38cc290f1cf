package aws

import (
	"slices"
	"time"

	"datamove.dev/mover"
)

// fsxService is FSx, of which only Lustre is here.
var fsxService = service{
	name: "fsx", iam: "fsx", target: "AWSSimbaAPIService_v20180301", regional: true, protocol: &json11,
	operations: map[string]operation{
		"CreateFileSystem":                   jsonOperation((*Server).createFileSystem),
		"DescribeFileSystems":                jsonOperation((*Server).describeFileSystems),
		"UpdateFileSystem":                   jsonOperation((*Server).updateFileSystem),
		"DeleteFileSystem":                   jsonOperation((*Server).deleteFileSystem),
		"CreateDataRepositoryAssociation":    jsonOperation((*Server).createAssociation),
		"DescribeDataRepositoryAssociations": jsonOperation((*Server).describeAssociations),
		"UpdateDataRepositoryAssociation":    jsonOperation((*Server).updateAssociation),
		"DeleteDataRepositoryAssociation":    jsonOperation((*Server).deleteAssociation),
		"CreateDataRepositoryTask":           jsonOperation((*Server).createTask),
		"DescribeDataRepositoryTasks":        jsonOperation((*Server).describeTasks),
		"CancelDataRepositoryTask":           jsonOperation((*Server).cancelTask),
		"TagResource":                        jsonOperation((*Server).tagResource),
		"UntagResource":                      jsonOperation((*Server).untagResource),
		"ListTagsForResource":                jsonOperation((*Server).listTags),
	},
}

// The states of what FSx has.
const (
	creating      = "CREATING"
	available     = "AVAILABLE"
	failed        = "FAILED"
	deleting      = "DELETING"
	misconfigured = "MISCONFIGURED"
	gone          = "" // it is no more
)

// resource is what everything that FSx has is made of.
type resource struct {
	ResourceARN  string
	CreationTime *epoch
	Tags         []tag `json:",omitempty"`

	id, region string
	serial     uint64
	token      string // that it was created with
	asked      string // the parameters that it was created with
	due        time.Time
	then       string // the state it has after due
	why        string // of FAILED and MISCONFIGURED
}

func (r *resource) order() uint64        { return r.serial }
func (r *resource) resources() *resource { return r }

type tag struct{ Key, Value string }

type details struct{ Message string }

// fileSystem is one, as DescribeFileSystems tells it.
type fileSystem struct {
	resource
	OwnerID               string `json:"OwnerId"`
	FileSystemID          string `json:"FileSystemId"`
	FileSystemType        string
	FileSystemTypeVersion string
	Lifecycle             string
	FailureDetails        *details `json:",omitempty"`
	StorageCapacity       int
	StorageType           string
	VpcID                 string   `json:"VpcId"`
	SubnetIDs             []string `json:"SubnetIds"`
	NetworkInterfaceIDs   []string `json:"NetworkInterfaceIds,omitempty"`
	DNSName               string
	KmsKeyID              string `json:"KmsKeyId,omitempty"`
	LustreConfiguration   lustre

	tree *Tree
}

type lustre struct {
	WeeklyMaintenanceStartTime    string `json:",omitempty"`
	DeploymentType                string `json:",omitempty"`
	PerUnitStorageThroughput      *int   `json:",omitempty"`
	MountName                     string `json:",omitempty"`
	DailyAutomaticBackupStartTime string `json:",omitempty"`
	AutomaticBackupRetentionDays  *int   `json:",omitempty"`
	CopyTagsToBackups             *bool  `json:",omitempty"`
	DataCompressionType           string `json:",omitempty"`
	EfaEnabled                    *bool  `json:",omitempty"`
	MetadataConfiguration         *struct {
		Mode string
		Iops *int `json:",omitempty"`
	} `json:",omitempty"`
	RootSquashConfiguration *struct {
		RootSquash   string
		NoSquashNids []string `json:",omitempty"`
	} `json:",omitempty"`
}

type createFileSystem struct {
	ClientRequestToken    string
	FileSystemType        string
	FileSystemTypeVersion string
	StorageCapacity       int
	StorageType           string
	SubnetIDs             []string `json:"SubnetIds"`
	SecurityGroupIDs      []string `json:"SecurityGroupIds"`
	Tags                  []tag
	KmsKeyID              string `json:"KmsKeyId"`
	LustreConfiguration   *lustre
}

func (s *Server) createFileSystem(c *call, in *createFileSystem) (any, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	asked := parameters(*in, &in.ClientRequestToken)
	if old, err := again(s.systems, c, in.ClientRequestToken, asked); old != nil || err != nil {
		return map[string]any{"FileSystem": old}, err
	}
	if most, ok := s.limits["FILE_SYSTEM_COUNT"]; ok && len(s.systems) >= most {
		return nil, &refusal{code: "ServiceLimitExceeded", message: "the account has as many file systems as it may have", more: map[string]string{"Limit": "FILE_SYSTEM_COUNT"}}
	}
	f := s.newFileSystem(c, in, asked)
	s.systems = append(s.systems, f)
	return map[string]any{"FileSystem": f}, nil
}

func (s *Server) newFileSystem(c *call, in *createFileSystem, asked string) *fileSystem {
	f := &fileSystem{
		OwnerID: Account, FileSystemType: "LUSTRE", FileSystemTypeVersion: or(in.FileSystemTypeVersion, defaultVersion(in)),
		Lifecycle: creating, StorageCapacity: in.StorageCapacity, StorageType: or(in.StorageType, "SSD"), VpcID: "vpc-0123456789abcdef0",
		SubnetIDs: in.SubnetIDs, LustreConfiguration: *in.LustreConfiguration,
	}
	f.resource = s.newResource(c, "fs", "file-system", in.Tags, in.ClientRequestToken, asked)
	f.FileSystemID = f.id
	f.DNSName = f.id + ".fsx." + c.region + ".amazonaws.com"
	f.LustreConfiguration.DeploymentType = in.deployment()
	f.LustreConfiguration.MountName = f.id[len(f.id)-8:]
	f.LustreConfiguration.DataCompressionType = or(in.LustreConfiguration.DataCompressionType, "NONE")
	if in.persistent() {
		f.KmsKeyID = or(in.KmsKeyID, "arn:aws:kms:"+c.region+":"+Account+":key/00000000-0000-4000-8000-00000000f5f5")
	}
	f.tree = &Tree{server: s, system: f, files: map[string]*File{}, failing: map[string]string{}}
	f.due, f.then = c.at.Add(s.opts.Lasts.Create), available
	if c.faults[EndsFailed] {
		f.then, f.why = failed, "ordered by the test"
	}
	return f
}

// defaultVersion is of https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html: 2.12 where a metadata configuration wants it, and otherwise 2.10; PERSISTENT_2 has no 2.10.
func defaultVersion(in *createFileSystem) string {
	if in.LustreConfiguration.MetadataConfiguration != nil || in.deployment() == "PERSISTENT_2" {
		return "2.12"
	}
	return "2.10"
}

func (s *Server) newResource(c *call, kind, path string, tags []tag, token, asked string) resource {
	id, serial := s.name(kind)
	return resource{
		ResourceARN: s.arn(c, path+"/"+id), CreationTime: at(c.at), Tags: tags,
		id: id, serial: serial, region: c.region, token: token, asked: asked,
	}
}

func (s *Server) arn(c *call, path string) string {
	return "arn:aws:" + c.name + ":" + c.region + ":" + Account + ":" + path
}

// again is idempotence as CreateFileSystem documents it: a resource with the token answers for itself when the parameters are the same. When it is gone, so is its token.
func again[T interface{ resources() *resource }](all []T, c *call, token, asked string) (old any, err error) {
	for _, one := range all {
		r := one.resources()
		if token == "" || r.token != token || r.region != c.region {
			continue
		}
		if r.asked != asked {
			return nil, &refusal{code: "IncompatibleParameterError", message: "the same ClientRequestToken was used with other parameters", more: map[string]string{"Parameter": "ClientRequestToken"}}
		}
		return one, nil
	}
	return nil, nil
}

// parameters are those of a request without its token, as text that can be compared.
func parameters[I any](in I, token *string) string {
	was := *token
	*token = ""
	text := string(mustJSON(in))
	*token = was
	return text
}

func (s *Server) describeFileSystems(c *call, in *struct {
	FileSystemIDs []string `json:"FileSystemIds"`
	MaxResults    *int
	NextToken     string
}) (any, error) {
	all, err := named(s.systems, c, in.FileSystemIDs, s.noSystem)
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.MaxResults, 50, in.NextToken)
	return listing("FileSystems", part, next), err
}

// listing is a page as it is answered: without NextToken when it is the last one.
func listing[T any](name string, part []T, next string) any {
	answer := map[string]any{name: append([]T{}, part...)}
	if next != "" {
		answer["NextToken"] = next
	}
	return answer
}

// named are the resources of the region with these ids, or all of them.
func named[T interface{ resources() *resource }](all []T, c *call, ids []string, missing func(id string) error) (found []T, err error) {
	if len(ids) > 50 {
		return nil, refuse("BadRequest", "%d ids: at most 50", len(ids))
	}
	for _, one := range all {
		if r := one.resources(); r.region == c.region && (ids == nil || slices.Contains(ids, r.id)) {
			found = append(found, one)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(found, func(one T) bool { return one.resources().id == id }) {
			return nil, missing(id)
		}
	}
	return found, nil
}

func (s *Server) noSystem(id string) error {
	return refuse("FileSystemNotFound", "File system %s does not exist.", printable(id))
}

// system finds one for an operation that needs it.
func (s *Server) system(c *call, id string) (*fileSystem, error) {
	if !systemID().MatchString(id) {
		return nil, refuse("BadRequest", "FileSystemId %s is none", printable(id))
	}
	one, err := named(s.systems, c, []string{id}, s.noSystem)
	if err != nil {
		return nil, err
	}
	return one[0], nil
}

// updateFileSystem changes the compression only; it is done at once, and AWS takes longer.
func (s *Server) updateFileSystem(c *call, in *struct {
	ClientRequestToken  string
	FileSystemID        string `json:"FileSystemId"`
	LustreConfiguration *struct{ DataCompressionType string }
}) (any, error) {
	f, err := s.system(c, in.FileSystemID)
	switch {
	case err != nil:
		return nil, err
	case in.LustreConfiguration == nil:
		return nil, refuse("BadRequest", "this fake updates nothing but LustreConfiguration.DataCompressionType")
	case f.Lifecycle != available:
		return nil, refuse("BadRequest", "File system %s is %s.", f.id, f.Lifecycle)
	}
	if err := oneOf("DataCompressionType", in.LustreConfiguration.DataCompressionType, "NONE", "LZ4"); err != nil {
		return nil, err
	}
	f.LustreConfiguration.DataCompressionType = in.LustreConfiguration.DataCompressionType
	return map[string]any{"FileSystem": f}, nil
}

// deleteFileSystem begins the end. Asked twice it says the same twice, until the file system is gone; AWS does not document that.
func (s *Server) deleteFileSystem(c *call, in *struct {
	ClientRequestToken  string
	FileSystemID        string `json:"FileSystemId"`
	LustreConfiguration *struct {
		SkipFinalBackup *bool
		FinalBackupTags []tag
	}
}) (any, error) {
	f, err := s.system(c, in.FileSystemID)
	if err != nil {
		return nil, err
	}
	for _, t := range s.tasks {
		if t.FileSystemID == f.id && !t.ended() {
			return nil, refuse("BadRequest", "File system %s has the data repository task %s, which is %s.", f.id, t.id, t.Lifecycle)
		}
	}
	if f.Lifecycle != deleting {
		f.Lifecycle, f.due, f.then = deleting, c.at.Add(s.opts.Lasts.Delete), gone
	}
	return map[string]any{"FileSystemId": f.id, "Lifecycle": f.Lifecycle}, nil
}

// settleSystems has file systems become what they are due to be.
func (s *Server) settleSystems(now time.Time) {
	for _, f := range s.systems {
		if f.due.IsZero() || now.Before(f.due) {
			continue
		}
		f.Lifecycle, f.due = f.then, time.Time{}
		if f.Lifecycle == failed {
			f.FailureDetails = &details{f.why}
		}
	}
	s.systems = slices.DeleteFunc(s.systems, func(f *fileSystem) bool { return f.Lifecycle == gone })
	s.associations = slices.DeleteFunc(s.associations, func(a *association) bool { return s.byID(a.FileSystemID) == nil })
}

func (s *Server) byID(id string) *fileSystem {
	for _, f := range s.systems {
		if f.id == id {
			return f
		}
	}
	return nil
}

// Limit has the account have no more than most of something: "FILE_SYSTEM_COUNT".
func (s *Server) Limit(name string, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits[name] = most
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

var systemID = mover.Pattern(`^fs-[0-9a-f]{8,18}$`)
