package policyserver

import (
	"cmp"
	"fmt"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/tiering/policy"
)

// crossed reports whether a watermark says that a policy has to run: what it looks at is above it for as long as it has to be; need is what has to go until it is at the low
// mark. After a run nothing is begun by it until it has been below, or is above for as long again.
func (s *Server) crossed(p *policy.Program, last *pb.Run) (need policy.Tally, is bool) {
	name, now := string(p.Policy.Metadata.Name), s.now()
	for i := range p.Policy.Spec.Trigger {
		t := &p.Policy.Spec.Trigger[i]
		if t.Event != "" || t.High == 0 {
			continue
		}
		key := fmt.Sprintf("%s\x00%d", name, i)
		over, above := s.above(t)
		if !above {
			delete(s.aboveSince, key)
			continue
		}
		if s.aboveSince == nil {
			s.aboveSince = map[string]time.Time{}
		}
		first, was := s.aboveSince[key]
		if !was {
			s.aboveSince[key], first = now, now
		}
		if end := last.GetEndTime(); end != nil && now.Sub(end.AsTime()) < max(time.Duration(t.HoldFor), watermarkRest) {
			continue
		}
		if now.Sub(first) >= time.Duration(t.HoldFor) {
			need.Bytes, need.Files, is = max(need.Bytes, over.Bytes), max(need.Files, over.Files), true
		}
	}
	return need, is
}

// watermarkRest is how long it is at least between two runs by a watermark.
const watermarkRest = 10 * time.Minute

// above reports whether what a watermark looks at is fuller than that, on some node, and how much has to go from there. What lies on one OST is a part of each file: so
// that much has to go for each of them.
func (s *Server) above(t *policy.Trigger) (need policy.Tally, is bool) {
	for _, room := range s.c.Rooms(t.Tier, s.conf().Tiers[t.Tier].NodeLocal) {
		osts := int64(0)
		for _, part := range room.GetParts() {
			if part.GetKind() == "ost" {
				osts++
			}
		}
		look := func(total, free, times int64) {
			used := total - free
			if total <= 0 || float64(used)*100 <= float64(t.High)*float64(total) {
				return
			}
			low := cmp.Or(t.Low, t.High)
			over := (used - int64(float64(low)/100*float64(total))) * max(1, times)
			if is = true; t.Measure == policy.OfInodes {
				need.Files = max(need.Files, over)
			} else {
				need.Bytes = max(need.Bytes, over)
			}
		}
		if t.Pool+t.OST+t.Project == "" {
			look(measured(t, room.GetTotalBytes(), room.GetTotalFiles()), measured(t, room.GetFreeBytes(), room.GetFreeFiles()), 1)
		}
		for _, part := range room.GetParts() {
			total, free := measured(t, part.GetTotalBytes(), part.GetTotalFiles()), measured(t, part.GetFreeBytes(), part.GetFreeFiles())
			switch {
			case part.GetKind() == "ost" && t.OST != "" && (t.OST == anyOST || t.OST == part.GetName()):
				look(total, free, osts)
			case part.GetKind() == "pool" && t.Pool == part.GetName(), part.GetKind() == "project" && t.Project == part.GetName():
				look(total, free, 1)
			}
		}
	}
	return need, is
}

// anyOST is the word for the fullest one.
const anyOST = "any"

// measured is what a watermark measures.
func measured(t *policy.Trigger, bytes, files int64) int64 {
	if t.Measure == policy.OfInodes {
		return files
	}
	return bytes
}
