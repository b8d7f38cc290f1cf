package p2p

import (
	"slices"
	"time"
)

// Member is a node that copies the tree, or has it.
type Member struct {
	Name    string
	Address string // where it is asked
	Seed    bool   // it has all of the tree, and reads nothing
}

// View is the set of members, as one of them knows it.
type View struct {
	Self    string
	Members []Member // beside Self may be one of them
	// Homes are the members among which the homes of pieces are chosen, and those among which they were before, the oldest
	// first: what is to be read by one was perhaps read by another one before.
	Homes [][]string
	// Since says that there were older homes than those.
	Since bool

	// Of those that a swarm has.
	heard time.Time     // when it heard of it
	over  chan struct{} // closed when there is another one
}

// alone says that there is no member to ask.
func (v *View) alone() bool {
	return !slices.ContainsFunc(v.Members, func(m Member) bool { return m.Name != v.Self })
}

// member returns the member with a name; false when it is not there any more, or is Self.
func (v *View) member(name string) (Member, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return m.Name == name && name != v.Self })
	if i < 0 {
		return Member{}, false
	}
	return v.Members[i], true
}

// owners is how many members read from the source.
func (v *View) owners() int {
	if len(v.Homes) == 0 {
		return 1
	}
	return len(v.Homes[len(v.Homes)-1])
}

// Owner is the member that reads a piece from the source. When that one is not there, each member reads the piece for itself.
func (v *View) Owner(index int) string {
	if len(v.Homes) == 0 {
		return v.Self
	}
	return ownerAmong(v.Homes[len(v.Homes)-1], index)
}

// ownerAmong goes around: members that read at the same position in the tree read from different homes.
func ownerAmong(names []string, index int) string {
	if len(names) == 0 {
		return ""
	}
	return names[index%len(names)]
}

// Holders are the members that may have a piece already, and are asked before the source is read: seeds, and
// earlier homes of the piece. When an earlier home is gone, all members are holders, because it may have given the piece to any of them.
func (v *View) Holders(index int) (who []Member) {
	add := func(m Member) {
		if m.Name != v.Self && !slices.ContainsFunc(who, func(x Member) bool { return x.Name == m.Name }) {
			who = append(who, m)
		}
	}
	v.eachFrom(index, func(m Member) bool { return m.Seed }, add)
	everybody := v.Since
	for i := len(v.Homes) - 2; i >= 0; i-- {
		name := ownerAmong(v.Homes[i], index)
		m, there := v.member(name)
		if there {
			add(m)
		}
		everybody = everybody || !there && name != v.Self && name != ""
	}
	if everybody {
		v.eachFrom(index, func(Member) bool { return true }, add)
	}
	return who
}

// eachFrom calls add with the members that are meant, beginning with another one for each piece.
func (v *View) eachFrom(index int, meant func(Member) bool, add func(Member)) {
	for i := range v.Members {
		if m := v.Members[(index+i)%len(v.Members)]; meant(m) {
			add(m)
		}
	}
}
