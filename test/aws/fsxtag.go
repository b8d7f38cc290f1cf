package aws

import (
	"slices"
	"strings"
)

// tagged finds what an ARN names.
func (s *Server) tagged(c *call, arn string) (*resource, error) {
	if !strings.HasPrefix(arn, "arn:aws:fsx:") {
		return nil, refuse("BadRequest", "ResourceARN %s is none of FSx", printable(arn)) // NotServiceResourceError would have to repeat it, and its model does not let it
	}
	for _, f := range s.systems {
		if f.ResourceARN == arn && f.region == c.region {
			return &f.resource, nil
		}
	}
	for _, a := range s.associations {
		if a.ResourceARN == arn && a.region == c.region {
			return &a.resource, nil
		}
	}
	for _, t := range s.tasks {
		if t.ResourceARN == arn && t.region == c.region {
			return &t.resource, nil
		}
	}
	return nil, &refusal{code: "ResourceNotFound", message: "nothing has this ARN", more: map[string]string{"ResourceARN": arn}}
}

func (s *Server) tagResource(c *call, in *struct {
	ResourceARN string
	Tags        []tag
}) (any, error) {
	r, err := s.tagged(c, in.ResourceARN)
	if err != nil {
		return nil, err
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	tags := without(r.Tags, func(key string) bool { return slices.ContainsFunc(in.Tags, func(t tag) bool { return t.Key == key }) })
	tags = append(tags, in.Tags...)
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	r.Tags = tags
	return struct{}{}, nil
}

func without(tags []tag, drop func(key string) bool) (kept []tag) {
	for _, t := range tags {
		if !drop(t.Key) {
			kept = append(kept, t)
		}
	}
	return kept
}

func (s *Server) untagResource(c *call, in *struct {
	ResourceARN string
	TagKeys     []string
}) (any, error) {
	r, err := s.tagged(c, in.ResourceARN)
	if err != nil {
		return nil, err
	}
	r.Tags = without(r.Tags, func(key string) bool { return slices.Contains(in.TagKeys, key) })
	return struct{}{}, nil
}

func (s *Server) listTags(c *call, in *struct {
	ResourceARN string
	MaxResults  *int
	NextToken   string
}) (any, error) {
	r, err := s.tagged(c, in.ResourceARN)
	if err != nil {
		return nil, err
	}
	all := make([]numbered, len(r.Tags))
	for i, t := range r.Tags {
		all[i] = numbered{t, uint64(i) + 1}
	}
	part, next, err := page(all, in.MaxResults, 50, in.NextToken)
	return listing("Tags", part, next), err
}

// numbered is a tag with its place in a listing.
type numbered struct {
	tag
	n uint64
}

func (n numbered) order() uint64 { return n.n }
