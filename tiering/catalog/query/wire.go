package query

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/policy"
)

// ChoiceOf is the choice in a question of the API.
func ChoiceOf(q *pb.Question) policy.Choice {
	return policy.Choice{Match: q.GetMatch(), Any: q.GetAny(), Where: q.GetWhere(), Classes: q.GetClasses()}
}

// Info is a file in the words of the API, with its name below a directory of the tree.
func (f *Found) Info(dir string) *pb.FileInfo {
	name := f.Name()
	switch dir {
	case "":
	case name:
		name = f.Base
	default:
		name = strings.TrimPrefix(name[len(dir):], "/")
	}
	out := &pb.FileInfo{Name: []byte(name), Kind: f.Kind.String(), Bytes: f.Size, StoredBytes: f.Stored, Links: int32(f.Links), Etag: text(f.ETag),
		SeenTime: timestamppb.New(time.Unix(f.Seen, 0)), Idle: durationpb.New(f.Idle), Project: f.Project, Classes: f.Classes}
	if f.Known.Has(mover.FactMode) {
		out.Mode = &f.Mode
	}
	if f.Known.Has(mover.FactOwner) {
		out.Uid, out.Owner = &f.UID, text(f.Owner)
	}
	if f.Known.Has(mover.FactGroup) {
		out.Gid, out.Group = &f.GID, text(f.Group)
	}
	if f.Known.Has(mover.FactMtime) {
		out.ModifyTime = timestamppb.New(time.Unix(0, f.Mtime))
	}
	if f.Known.Has(mover.FactAtime) {
		out.AccessTime = timestamppb.New(time.Unix(0, f.Atime))
	}
	if f.Known.Has(mover.FactCtime) {
		out.ChangeTime = timestamppb.New(time.Unix(0, f.Ctime))
	}
	return out
}

// Line is a sum in the words of the API.
func (s *Sum) Line() *pb.FileSum {
	out := &pb.FileSum{Files: s.Files, Dirs: s.Dirs, Others: s.Others, Bytes: s.Bytes, StoredBytes: s.Stored}
	for _, word := range s.Group {
		out.Group = append(out.Group, text(word))
	}
	return out
}

// text is what the wire takes: names are bytes.
func text(s string) string { return strings.ToValidUTF8(s, "�") }

// ScanOf is the state of a tree in the words of the API, without the names of what could not be read.
func ScanOf(s *catalog.State) *pb.Scan {
	out := &pb.Scan{Tier: s.Tree.Tier, Node: s.Tree.Node, Files: s.Scan.Files, Dirs: s.Scan.Dirs, Others: s.Scan.Others, Bytes: s.Scan.Bytes, StoredBytes: s.Scan.Stored, Unread: s.Scan.Unread}
	if !s.Scanned.IsZero() {
		out.Time, out.Took = timestamppb.New(s.Scanned), durationpb.New(s.Took)
	}
	if !s.Verified.IsZero() {
		out.Verified = timestamppb.New(s.Verified)
	}
	if !s.Began.IsZero() {
		out.Began = timestamppb.New(s.Began)
	}
	return out
}

// Keyed reads the keys of sums. What is none, or comes twice, is mover.ErrUsage.
func Keyed(words []string) (by []Key, err error) {
	for _, word := range words {
		key, err := read("a key of sums", Key(word), Keys)
		if err != nil {
			return nil, err
		}
		for _, was := range by {
			if was == key {
				return nil, twice(word)
			}
		}
		by = append(by, key)
	}
	return by, nil
}

// Ordered reads an order; "" is the usual one.
func Ordered(word string) (Order, error) {
	if word == "" {
		return ByName, nil
	}
	return read("an order", Order(word), Orders)
}
