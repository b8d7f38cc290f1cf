package s3

import (
	"fmt"
	"sync"

	"datamove.dev/mover"
)

// tally counts what is told once, by the name of the first.
type tally struct {
	mu    sync.Mutex
	n     int64  // guarded by mu, as what follows
	first string // by name
}

func (t *tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n++; t.n == 1 || name < t.first {
		t.first = name
	}
}

func (t *tally) count() (n int64, first string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n, t.first
}

// remark is a note that is told once.
type remark struct {
	mu   sync.Mutex
	text string // guarded by mu
}

func (r *remark) once(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = text
}

var _ mover.Warner = (*Backend)(nil)

// Notes implements mover.Warner.
func (p *Backend) Notes() (notes []string) {
	if n, first := p.tagsHidden.count(); n > 0 {
		notes = append(notes, fmt.Sprintf("objects of %s whose tags can not be read, and were not compared or kept: %d, of which one is %s; grant s3:GetObjectTagging, or leave tags out of --preserve", p.address, n, mover.Printable(first)))
	}
	if n, first := p.guardsHidden.count(); n > 0 {
		notes = append(notes, fmt.Sprintf("objects of %s that were changed, and may have lost their ACL or their locks, which can not be read: %d, of which one is %s; grant s3:GetBucketOwnershipControls, s3:GetObjectAcl and s3:GetBucketObjectLockConfiguration", p.address, n, mover.Printable(first)))
	}
	p.unseen.mu.Lock()
	defer p.unseen.mu.Unlock()
	if p.unseen.text != "" {
		notes = append(notes, p.unseen.text)
	}
	return notes
}
