package s3api

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strings"
)

// tagSet is the answer to GetObjectTagging (API reference).
type tagSet struct {
	Tags []struct{ Key, Value string } `xml:"TagSet>Tag"`
}

// encodeTags writes tags as the header x-amz-tagging has them, sorted.
func encodeTags(tags url.Values) string {
	return strings.ReplaceAll(tags.Encode(), "+", "%20")
}

// decodeTags is the other way; of a name that is there twice the first counts.
func decodeTags(tags string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		all, _ := url.ParseQuery(tags) // of what no server takes, the rest
		for name, values := range all {
			if !yield(name, values[0]) {
				return
			}
		}
	}
}

func (s *onprem) Tags(ctx context.Context, key string) (string, error) {
	var set tagSet
	if err := s.ask(ctx, key, "tagging", &set); err != nil {
		return "", untagged(err)
	}
	tags := url.Values{}
	for _, t := range set.Tags {
		tags.Set(t.Key, t.Value)
	}
	return encodeTags(tags), nil
}

// untagged forgives that there are no tags.
func untagged(err error) error {
	if a := (*answer)(nil); errors.As(err, &a) && a.code == "NoSuchTagSet" {
		return nil
	}
	return err
}

// Grantee is what a grant is for: one of three.
type Grantee struct{ ID, URI, EmailAddress string }

type grant struct {
	Grantee    Grantee
	Permission string
}

// AccessList is the answer to GetObjectAcl.
type AccessList struct {
	Owner  struct{ ID string }
	Grants []grant `xml:"AccessControlList>Grant"`
}
