package peer

import (
	"container/list"
	"sync"

	"datamove.dev/mover/p2p"
)

// pieceCache has pieces in memory, those that were asked for last.
type pieceCache struct {
	most int64

	mu    sync.Mutex
	bytes int64 // guarded by mu, as all below
	all   map[kept]*list.Element
	order list.List // of *entry, the one to go first in front
}

type kept struct {
	digest string
	key    p2p.Key
}

type entry struct {
	kept
	data []byte
}

func (k *pieceCache) open(most int64) { k.most, k.all = most, map[kept]*list.Element{} }

func (k *pieceCache) get(digest string, key p2p.Key) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.all[kept{digest, key}]
	if e == nil {
		return nil
	}
	k.order.MoveToBack(e)
	return e.Value.(*entry).data
}

func (k *pieceCache) put(digest string, key p2p.Key, data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := kept{digest, key}
	if k.all[id] != nil || int64(len(data)) > k.most {
		return
	}
	for k.bytes+int64(len(data)) > k.most {
		k.drop(k.order.Front())
	}
	k.all[id] = k.order.PushBack(&entry{id, data})
	k.bytes += int64(len(data))
}

// drop forgets a piece. mu is held.
func (k *pieceCache) drop(e *list.Element) {
	x := k.order.Remove(e).(*entry)
	delete(k.all, x.kept)
	k.bytes -= int64(len(x.data))
}

// forget drops all of a tree.
func (k *pieceCache) forget(digest string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for e := k.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*entry).digest == digest {
			k.drop(e)
		}
		e = next
	}
}
