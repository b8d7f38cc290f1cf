package catalogworker

import (
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
)

// TestPacedGlances: who looks for what has happened sees what is true now, and not what Stat remembers.
func TestPacedGlances(t *testing.T) {
	place := must.Get(posix.Open(t.TempDir(), posix.Options{}))(t)
	defer place.Close()
	if g, ok := mover.As[catalog.Glancer](&paced{Backend: place}); !ok || g != catalog.Glancer(place) {
		t.Errorf("it has %v", g)
	}
}
