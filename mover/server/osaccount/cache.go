package osaccount

import (
	"sync"
	"time"
)

// cache keeps answers for a time. The zero value is empty.
type cache[K comparable, V any] struct {
	mu   sync.Mutex // guards kept
	kept map[K]kept[V]
}

type kept[V any] struct {
	value V
	until time.Time
}

func (c *cache[K, V]) get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.kept[key]
	if !ok || !time.Now().Before(k.until) {
		delete(c.kept, key)
		return *new(V), false
	}
	return k.value, true
}

// put keeps a value. When there is no room it lets go of what is over, or else of
// any: to ask again costs a moment.
func (c *cache[K, V]) put(key K, value V, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[K]kept[V]{}
	}
	if _, there := c.kept[key]; !there && len(c.kept) >= capacity {
		c.room()
	}
	c.kept[key] = kept[V]{value, time.Now().Add(ttl)}
}

// room drops what is over, and more until there is room for many: looking through
// all of them for each one would be dear. It needs mu.
func (c *cache[K, V]) room() {
	now := time.Now()
	for key, k := range c.kept {
		if !now.Before(k.until) {
			delete(c.kept, key)
		}
	}
	for key := range c.kept {
		if len(c.kept) < capacity*7/8 {
			return
		}
		delete(c.kept, key)
	}
}
