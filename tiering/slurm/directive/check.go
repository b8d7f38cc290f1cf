package directive

import (
	"fmt"
	"maps"
	"slices"

	"datamove.dev/mover/location"
)

// Check looks once more whether a job may ask for what it does, with tiers that may have
// changed. Its errors are Problems.
func (j Job) Check(tiers Tiers) error {
	var all []asked
	for _, r := range j.Requests {
		all = append(all, asked{Request: r})
	}
	problems := check(all, tiers)
	for _, s := range j.Scratch {
		if !tiers.jobs(s.Tier) {
			problems = append(problems, Problem{Word: "jobdw", What: "the tier " + shown(s.Tier) + " is not, or no longer, node-local and ephemeral"})
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// checker looks at requests beside each other.
type checker struct {
	tiers    Tiers
	problems Problems
}

func check(all []asked, tiers Tiers) Problems {
	c := &checker{tiers: tiers}
	var right []asked
	for _, a := range all {
		before := len(c.problems)
		if c.alone(a); len(c.problems) == before {
			right = append(right, a)
		}
	}
	for i, a := range right {
		for _, b := range right[:i] {
			c.beside(a, b)
		}
	}
	return c.problems
}

func (c *checker) add(a asked, key, what, mend string) {
	c.problems = append(c.problems, *a.problem(key, what, mend))
}

// alone looks at one request.
func (c *checker) alone(a asked) {
	if !c.known(a, string(a.Verb), a.From) || slices.ContainsFunc(a.To, func(to location.Location) bool { return !c.known(a, "to", to) }) {
		return
	}
	from := c.tiers.find(a.From)
	switch a.Verb {
	case StageIn:
		c.stageIn(a, from)
	case StageOut, Checkpoint:
		c.leaves(a, from)
	case Purge:
		c.purge(a, from)
	}
	for i, l := range a.To {
		to := c.tiers.find(l)
		if to.meets(from, equal) {
			c.add(a, "to", "the target is the source, or one lies in the other", "name another directory")
		}
		for _, other := range a.To[:i] {
			if to.meets(c.tiers.find(other), equal) {
				c.add(a, "to", "two targets are the same, or one lies in the other", example(a.Verb))
			}
		}
	}
}

// known reports whether the tier of a location is there.
func (c *checker) known(a asked, key string, l location.Location) bool {
	if !l.InTier() {
		return true
	}
	if _, there := c.tiers.Named[l.Tier]; there {
		return true
	}
	mend := "there are no tiers; write a path, or s3://bucket/prefix"
	if names := slices.Sorted(maps.Keys(c.tiers.Named)); len(names) > 0 {
		mend = nearest(l.Tier, names)
	}
	c.add(a, key, "there is no tier "+shown(l.Tier), mend)
	return false
}

func (c *checker) stageIn(a asked, from spot) {
	switch from.ground {
	case own:
		c.add(a, "stage-in", "the job's own directory is empty before the job starts", "name where the data is now: "+forms[StageIn].example)
	case node:
		c.add(a, "stage-in", "the source lies on a node's own disk, and the job may get another node", "name data that all nodes see: "+forms[StageIn].example)
	}
	l := a.To[0]
	to := c.tiers.find(l)
	switch {
	case l.IsDataset():
		c.add(a, "to", "a dataset is no target", example(StageIn))
	case to.ground == store:
		c.add(a, "to", "a job reads files, and this is a bucket", example(StageIn))
	case to.ground == node && l.IsPath():
		c.add(a, "to", "the path lies on a node's own disk, which other jobs use, too", "name a tier, on which the job has a directory: "+forms[StageIn].example)
	case c.tiers.Named[to.tier].Level.colder(c.tiers.Named[from.tier].Level):
		c.add(a, "to", fmt.Sprintf("the tier %s is slower than %s, where the data is", to.tier, from.tier), example(StageIn))
	case a.Shared && !a.From.IsDataset():
		c.add(a, "shared", "only a dataset can be shared: it does not change", "leave shared out, or add the data as a dataset (datamove dataset add)")
	case a.Shared && to.ground != own:
		c.add(a, "shared", "it is for the job's directory on a node: elsewhere others find the target anyhow", "leave shared out, or write to=TIER:name with a tier of the node")
	}
}

// leaves looks at a stage-out or a checkpoint.
func (c *checker) leaves(a asked, from spot) {
	verb := string(a.Verb)
	switch {
	case a.From.IsDataset():
		c.add(a, verb, "a dataset does not change, and a job does not write to it", example(a.Verb))
	case from.ground == store:
		c.add(a, verb, "a job writes files, and this is a bucket", example(a.Verb))
	case from.ground == node:
		c.add(a, verb, "it is out of the job's reach: on a node's own disk only its directory on a tier is the job's", example(a.Verb))
	}
	for _, l := range a.To {
		switch to := c.tiers.find(l); {
		case l.IsDataset():
			c.add(a, "to", "a dataset is no target", "copy to a directory, and add that as a dataset (datamove dataset add)")
		case to.ground == own:
			c.add(a, "to", "the job's own directory is gone when the job has ended", example(a.Verb))
		case to.ground == node:
			c.add(a, "to", "it lies on a node's own disk, and would be seen there only", example(a.Verb))
		}
	}
}

// purge looks whether only what is ephemeral would go.
func (c *checker) purge(a asked, s spot) {
	if !a.From.InTier() {
		mend := "write purge=TIER:name, with a tier that is ephemeral"
		if s.tier != "" && c.tiers.Named[s.tier].Ephemeral {
			mend = "write purge=" + s.tier + ":name"
		}
		c.add(a, "purge", "only what lies in a tier is purged", mend)
		return
	}
	mend := "there is none that is; remove it yourself"
	for _, name := range slices.Sorted(maps.Keys(c.tiers.Named)) {
		if c.tiers.Named[name].Ephemeral {
			mend = "write purge=" + name + ":tmp"
			break
		}
	}
	switch {
	case s.ground == own:
		if a.When == Success {
			c.add(a, "when", "the job's own directory goes at its end, however it ends", "leave when=success out; what is to stay is brought away: "+forms[StageOut].example)
		}
	case !c.tiers.Named[a.From.Tier].Ephemeral || !c.tiers.Named[s.tier].Ephemeral:
		c.add(a, "purge", "the tier "+s.tier+" is not ephemeral: what is there is kept", mend)
	case a.From.Path == "":
		c.add(a, "purge", "this is the whole tier", "write purge="+a.From.Tier+":tmp")
	default:
		c.covers(a, s)
	}
}

// covers refuses to purge what another tier keeps, or may keep once patterns are
// expanded: one that lies in this tier, or is the same place by another name.
func (c *checker) covers(a asked, s spot) {
	own := c.tiers.find(location.OfTier(a.From.Tier, ""))
	for _, name := range slices.Sorted(maps.Keys(c.tiers.Named)) {
		tier := c.tiers.Named[name]
		root := c.tiers.find(location.OfTier(name, ""))
		if !tier.Ephemeral && len(root.path) >= len(own.path) && root.meets(s, perhaps) {
			c.add(a, "purge", "it may meet the tier "+name+", which is not ephemeral", "purge something that begins with another name, or is smaller")
			return
		}
	}
}

// beside looks at two requests. The problem is told of the second one.
func (c *checker) beside(b, a asked) {
	switch {
	case a.Verb == Purge && b.Verb == Purge:
		if c.tiers.find(a.From).meets(c.tiers.find(b.From), equal) {
			c.add(b, "purge", "it is purged twice, or lies in what is purged", "keep one")
		}
	case a.Verb == Purge:
		c.purged(b, b.To, a, b)
	case b.Verb == Purge:
		c.purged(b, a.To, b, a)
	case (a.Verb == StageIn) == (b.Verb == StageIn):
		for _, x := range a.To {
			for _, y := range b.To {
				if c.tiers.find(x).meets(c.tiers.find(y), equal) {
					c.add(b, "to", "the target is that of another request, or one lies in the other", "give each a directory of its own")
					return
				}
			}
		}
	}
}

// purged refuses to purge what has just been brought away: results of this job would be gone.
func (c *checker) purged(at asked, targets []location.Location, purge, other asked) {
	s := c.tiers.find(purge.From)
	for _, to := range targets {
		if other.Verb != StageIn && c.tiers.find(to).meets(s, perhaps) {
			key := "purge"
			if at.Verb != Purge {
				key = "to"
			}
			c.add(at, key, "what the "+string(other.Verb)+" brings to its target may be purged", "purge something else")
			return
		}
	}
}
