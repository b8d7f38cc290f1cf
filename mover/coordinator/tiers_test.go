package coordinator

import (
	"errors"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
)

// TestNoTier: a tier that the configuration does not have is answered with the nearest one, wherever it is named, and with all that there are.
func TestNoTier(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	copying := func(source, target string) error {
		_, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: source, Target: target}})
		return err
	}
	_, listed := d.datasets.ListTiers(root, &pb.ListTiersRequest{Name: "projcet"})
	for what, err := range map[string]error{"source": copying("projcet:x", "project:y"), "target": copying("project:y", "projcet:x"), "list": listed} {
		if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), "no such tier; did you mean project? it has ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := copying("tape-library:x", "project:y"); !errors.Is(err, mover.ErrUsage) || strings.Contains(err.Error(), "did you mean") || !strings.Contains(err.Error(), "it has ") {
		t.Errorf("far from all: %v", err)
	}
}
