package detect

import (
	"errors"
	"os"
	"strings"
	"testing"

	"datamove.dev/lustre"
)

// namedMounts is the variable with mounts of other tests, guests and sites: KIND=DIRECTORY,
// divided by commas. What each is has to be found out, and what it can has to be said.
const namedMounts = "DATAMOVE_TEST_MOUNTS"

func TestNamedMounts(t *testing.T) {
	named := os.Getenv(namedMounts)
	if named == "" {
		t.Skip("elsewhere: make e2e-vm, e2e-ceph: needs mounts to look at: " + namedMounts + "=nfs=/mnt/nfs,xfs=/mnt/xfs")
	}
	for one := range strings.SplitSeq(named, ",") {
		kind, dir, ok := strings.Cut(one, "=")
		if !ok {
			t.Fatalf("%s: %q is no KIND=DIRECTORY", namedMounts, one)
		}
		t.Run(kind, func(t *testing.T) { looksLike(t, lustre.Kind(kind), dir) })
	}
}

func looksLike(t *testing.T, kind lustre.Kind, dir string) {
	h := opened(t, dir)
	s := h.System
	t.Logf("%s: %+v", dir, s)
	if s.Kind != kind || s.Type == "" || s.Name == "" || !strings.HasPrefix(dir+"/", strings.TrimSuffix(s.Mount, "/")+"/") {
		t.Errorf("it is %+v", s)
	}
	// Nothing is without an answer and without a reason.
	for question, has := range map[lustre.Question]bool{lustre.AskLayout: s.Layout != nil, lustre.AskQuota: s.Quota != nil,
		lustre.AskUsage: s.Usage != nil, lustre.AskHSM: s.HSM != nil, lustre.AskChange: s.Change != nil} {
		if !has && (s.Lacks[question] == "" || !errors.Is(s.Lack(question), errors.ErrUnsupported)) {
			t.Errorf("%s: %v", question, s.Lack(question))
		}
	}
	targets, err := s.Usage.Targets(t.Context(), h.FD())
	if err != nil || len(targets) == 0 {
		t.Errorf("how full it is: %+v, %v", targets, err)
	}
	if s.Quota != nil {
		p, err := s.Quota.Project(t.Context(), h.FD())
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("the project of %s: %v", dir, err)
		}
		t.Logf("project %+v", p)
	}
}
