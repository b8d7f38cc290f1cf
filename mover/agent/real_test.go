package agent

import "testing"

// TestInTier: a path that is in a tier has the name of that in every answer, wherever a node has it.
func TestInTier(t *testing.T) {
	tiers := map[string]string{"lab": "/lustre/lab", "lustre": "/lustre", "nvme": "/nvme"}
	for real, want := range map[string]string{
		"/lustre/lab/x":  "lustre:lab/x", // the outermost one, as of what is beside the inner one
		"/lustre":        "lustre:",
		"/lustre2/x":     "/lustre2/x",
		"/nvme/jobs/a:b": "nvme:jobs/a:b",
		"/home/ann":      "/home/ann",
	} {
		if got := inTier(real, tiers); got != want {
			t.Errorf("%s is %s, want %s", real, got, want)
		}
	}
}
