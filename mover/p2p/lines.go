package p2p

import "sync"

// lines are the questions that wait to be asked, of each member: those first that come first in the tree, or what is read next would
// wait behind all that is read later.
type lines struct {
	// reads are those of the source. While there are some, each member is asked no more at a time than that. So what comes from the source,
	// for all, has as much of the link as what comes from each of them. A member that has fallen behind finds all it asks for, and would leave
	// no room for what the others wait for.
	reads *queue

	mu  sync.Mutex
	all map[line]*queue // guarded by mu
}

type line struct {
	member string
	atHome bool // those questions wait for the source, and the others do not
}

// AsksMost is how many questions of each kind one member is asked at a time, where there are few: so there is always something on the way. Of
// many members each is asked less, or all answers come at one time over one link.
const (
	AsksMost  = 8
	asksOfAll = 32
	asksLeast = 1
)

func (l *lines) of(x line) *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[line]*queue{}
	}
	if l.all[x] == nil {
		l.all[x] = &queue{ofAll: asksOfAll, least: asksLeast, limit: AsksMost, beside: l.reads}
	}
	return l.all[x]
}
