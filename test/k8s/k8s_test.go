package k8s

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// TestCluster: two nodes run pods, which reach the API server and each other's node, and all of it is gone in the end.
func TestCluster(t *testing.T) {
	Programs(t)
	c := Start(t, Options{Nodes: 2, Images: Images(t)})
	for n := 1; n <= 2; n++ {
		c.Apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: pod%d}, spec: {nodeName: %s, dnsPolicy: Default, restartPolicy: Never,
containers: [{name: worker, image: "%s", args: [then, fetch, "https://%s/api", ",", write, /tmp/said, here, ",", pause], volumeMounts: [{name: tmp, mountPath: /tmp}]}], volumes: [{name: tmp, emptyDir: {}}]}}`, n, NodeName(n), Worker, serviceAddress))
	}
	for n := 1; n <= 2; n++ {
		pod := fmt.Sprintf("pod%d", n)
		c.Eventually(pod+" runs and has reached the API server", 2*time.Minute, func() error {
			out, err := c.Try("logs", pod)
			if err == nil && !strings.Contains(out, "200 OK") {
				err = fmt.Errorf("it said %q", out)
			}
			return err
		})
		c.Eventually("a program runs in "+pod, time.Minute, func() error {
			out, err := c.Try("exec", pod, "--", "/worker", "read", "/tmp/said")
			if err == nil && out != "here" {
				err = fmt.Errorf("it said %q", out)
			}
			return err
		})
		if out, err := c.Inside(n, "ls", "/var/lib/kubelet/pods"); err != nil || len(strings.Fields(out)) != 1 {
			t.Errorf("node %d has the pods %q, %v", n, out, err)
		}
	}
}
