package catalog

import (
	"fmt"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
)

const schemaFile = "datamove.file/v1"

// FileView is a file of the catalog as JSON. What is not known is left out.
type FileView struct {
	Schema string `json:"schema"`
	cli.NameView
	Kind        string     `json:"kind"`
	Bytes       int64      `json:"bytes"`
	StoredBytes int64      `json:"stored_bytes"`
	Mode        string     `json:"mode,omitempty"` // octal
	UID         *uint32    `json:"uid,omitempty"`
	GID         *uint32    `json:"gid,omitempty"`
	Owner       string     `json:"owner,omitempty"`
	Group       string     `json:"group,omitempty"`
	Project     string     `json:"project,omitempty"`
	Mtime       *time.Time `json:"mtime,omitempty"`
	Atime       *time.Time `json:"atime,omitempty"`
	Ctime       *time.Time `json:"ctime,omitempty"`
	Seen        *time.Time `json:"first_seen,omitempty"`
	IdleSeconds int64      `json:"idle_seconds"`
	Links       int32      `json:"links,omitempty"`
	ETag        string     `json:"etag,omitempty"`
	Classes     []string   `json:"classes,omitempty"`
}

// ViewFile is a file as JSON has it.
func ViewFile(f *pb.FileInfo) FileView {
	v := FileView{Schema: schemaFile, NameView: cli.ViewName(string(f.GetName())), Kind: f.GetKind(), Bytes: f.GetBytes(), StoredBytes: f.GetStoredBytes(), UID: f.Uid, GID: f.Gid,
		Owner: f.GetOwner(), Group: f.GetGroup(), Project: f.GetProject(), Mtime: cli.Stamp(f.GetModifyTime()), Atime: cli.Stamp(f.GetAccessTime()), Ctime: cli.Stamp(f.GetChangeTime()),
		Seen: cli.Stamp(f.GetSeenTime()), IdleSeconds: int64(f.GetIdle().AsDuration().Seconds()), Links: f.GetLinks(), ETag: f.GetEtag(), Classes: f.GetClasses()}
	if f.Mode != nil {
		v.Mode = fmt.Sprintf("%04o", f.GetMode())
	}
	return v
}
