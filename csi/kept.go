package csi

import (
	"maps"
	"sync"
	"time"

	"datamove.dev/csi/volumestore"
)

// keptFor is how long the last answer about a volume stands for one that its file system does not give.
const keptFor = 10 * time.Minute

// kept remembers how full volumes were, as long as that may stand for an answer.
type kept struct {
	mu   sync.Mutex
	last map[string]answered // by ID of the volume; guarded by mu
}

type answered struct {
	stats volumestore.Stats
	at    time.Time
}

// put remembers an answer, and forgets those that are too old. The kubelet asks for each volume every minute.
func (k *kept) put(id string, s volumestore.Stats) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.last, func(_ string, a answered) bool { return time.Since(a.at) > keptFor })
	if k.last == nil {
		k.last = map[string]answered{}
	}
	k.last[id] = answered{s, time.Now()}
}

// get is the last answer, if it may stand for one.
func (k *kept) get(id string) (volumestore.Stats, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, ok := k.last[id]
	return a.stats, ok && time.Since(a.at) <= keptFor
}
