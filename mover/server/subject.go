package server

import (
	datamovev1 "datamove.dev/api/datamove/v1"
)

// subject is what a call is about, for the record.
type subject struct {
	object    string
	locations []string
}

// about looks into a request. Not every one has a subject; which of these fields it
// has is all that is asked.
func about(request any) (s subject) {
	if m, ok := request.(interface {
		GetSpec() *datamovev1.TaskSpec
	}); ok {
		s.locations = locationsOf(m.GetSpec())
	}
	if m, ok := request.(interface{ GetLocation() string }); ok && m.GetLocation() != "" {
		s.locations = append(s.locations, m.GetLocation())
	}
	if m, ok := request.(interface{ GetSource() string }); ok && m.GetSource() != "" {
		s.locations = append(s.locations, m.GetSource())
	}
	s.object = object(request)
	return s
}

func object(request any) string {
	if m, ok := request.(interface{ GetId() string }); ok && m.GetId() != "" {
		return m.GetId()
	}
	if m, ok := request.(interface{ GetName() string }); ok && m.GetName() != "" {
		return m.GetName()
	}
	if m, ok := request.(interface{ GetDataset() string }); ok && m.GetDataset() != "" {
		return m.GetDataset()
	}
	if m, ok := request.(interface{ GetTier() string }); ok {
		return m.GetTier()
	}
	return ""
}

func locationsOf(spec *datamovev1.TaskSpec) (all []string) {
	for _, at := range append(append([]string{spec.GetSource()}, spec.GetSources()...), spec.GetTarget()) {
		if at != "" {
			all = append(all, at)
		}
	}
	return all
}
