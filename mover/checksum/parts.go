package checksum

import "sync"

// Parts collects the checksums of the parts of one content in any order, and
// gives that of the whole. The zero value is empty and ready. It holds about 40
// bytes per part.
type Parts struct {
	mu    sync.Mutex
	parts map[int]part // guarded by mu
}

type part struct {
	crc   uint64
	bytes int64
}

// Add tells the checksum and the length in bytes of the part with this index,
// counted from 0. A part that is told again replaces what was told before.
func (p *Parts) Add(index int, crc uint64, bytes int64) {
	if index < 0 || bytes < 0 {
		panic("crc: negative part")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.parts == nil {
		p.parts = make(map[int]part)
	}
	p.parts[index] = part{crc, bytes}
}

// Len returns how many parts were told.
func (p *Parts) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.parts)
}

// Sum returns the checksum and the length of the whole. It reports false when a
// part between the first and the last one told is missing; only the caller knows
// whether the last one told is the last one there is, and compares the length.
func (p *Parts) Sum() (crc uint64, bytes int64, whole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	factor, of := shift(0), int64(0) // parts but the last are of one length: shift once
	for i := range len(p.parts) {
		next, ok := p.parts[i]
		if !ok {
			return 0, 0, false
		}
		if next.bytes != of {
			factor, of = shift(next.bytes), next.bytes
		}
		crc = mul(crc, factor) ^ next.crc
		bytes += next.bytes
	}
	return crc, bytes, true
}
