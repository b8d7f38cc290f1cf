package deploy

import (
	"os/exec"
	"strings"
	"testing"
)

// helps are the programs of the image, with what they say of their flags.
var helps = map[string]string{"/bin/datamoved": "datamove.dev/cmd/datamoved", "/bin/datamove-csi": "datamove.dev/cmd/datamove-csi"}

// Every flag in the chart is one that the program has.
func TestFlags(t *testing.T) {
	for program, source := range helps {
		help, err := exec.Command("go", "run", source, "--help").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, help)
		}
		found := 0
		for _, values := range settings(t) {
			for component, p := range parts(objects(t, values, render(t, values))) {
				for _, c := range p.Spec.Containers {
					if len(c.Command) == 0 || c.Command[0] != program {
						continue
					}
					for _, word := range c.Command[1:] {
						flag, _, _ := strings.Cut(word, "=")
						found++
						if !strings.Contains(string(help), flag+" ") {
							t.Errorf("%s: %s: %s has no flag %s", values, component, program, flag)
						}
					}
				}
			}
		}
		if found < 10 {
			t.Errorf("%s: %d flags", program, found)
		}
	}
}
