package cli

import (
	"fmt"
	"time"

	pb "datamove.dev/api/datamove/v1"
)

// fileView is a file of the catalog as JSON. What is not known is left out.
type fileView struct {
	Schema string `json:"schema"`
	nameView
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

func viewFile(f *pb.FileInfo) fileView {
	v := fileView{Schema: schemaFile, nameView: viewName(string(f.GetName())), Kind: f.GetKind(), Bytes: f.GetBytes(), StoredBytes: f.GetStoredBytes(), UID: f.Uid, GID: f.Gid,
		Owner: f.GetOwner(), Group: f.GetGroup(), Project: f.GetProject(), Mtime: stamp(f.GetModifyTime()), Atime: stamp(f.GetAccessTime()), Ctime: stamp(f.GetChangeTime()),
		Seen: stamp(f.GetSeenTime()), IdleSeconds: int64(f.GetIdle().AsDuration().Seconds()), Links: f.GetLinks(), ETag: f.GetEtag(), Classes: f.GetClasses()}
	if f.Mode != nil {
		v.Mode = fmt.Sprintf("%04o", f.GetMode())
	}
	return v
}

const schemaFile = "datamove.file/v1"
