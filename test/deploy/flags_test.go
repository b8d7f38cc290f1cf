package deploy

import (
	"strings"
	"testing"

	"datamove.dev/cmd/datamove-bench/harness"
	"datamove.dev/cmd/datamove-csi/driver"
	"datamove.dev/cmd/datamoved/daemon"
	"datamove.dev/test/crash/rig"
)

func TestMain(m *testing.M) {
	rig.Main(m, rig.Commands{"datamoved": daemon.Main, "datamove-csi": driver.Main, "datamove-bench": harness.Main})
}

// helps are the programs of the image, with what they say of their flags.
var helps = map[string]string{"/bin/datamoved": "datamoved", "/bin/datamove-csi": "datamove-csi"}

// Every flag in the chart is one that the program has.
func TestFlags(t *testing.T) {
	for program, name := range helps {
		help := rig.NewCommand(t, name).Do(t, 0, "--help").Stdout()
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
						if !strings.Contains(help, flag+" ") {
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
