package driver

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/must"
)

// TestRestarts: pods keep what they have while the driver of their node is killed or replaced, also in the middle of mounts; pods that
// come or go meanwhile get what they ask for, and nothing of them stays.
func TestRestarts(t *testing.T) {
	s := install(t)
	ephemeral := "ephemeral: {volumeClaimTemplate: {spec: {storageClassName: scratch, accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Mi}}}}}"
	volumes := map[string]string{"home": claimed("home"), "tmp": ephemeral}
	s.Apply(claim("home", "project", "80Mi", "") + pod("old", "nodeName: node2,", map[string]string{"home": claimed("home")}))
	s.runs("old")
	keeps := func(when string) {
		t.Helper()
		if out, err := s.in("old", "write", "/home/"+when, when); err != nil {
			t.Errorf("%s the pod that runs can not write: %s, %v", when, out, err)
		}
	}
	keeps("before")

	// Pods come, and each time that one more of their volumes is there the driver is killed.
	const many = 8
	names := []string{}
	for i := range many {
		names = append(names, fmt.Sprintf("pod%d", i))
		s.Apply(pod(names[i], "nodeSelector: {kubernetes.io/hostname: node2},", volumes))
	}
	for kill := range 3 {
		s.Eventually("more is being mounted", 2*time.Minute, func() error {
			if n := s.mounts(2); n <= 1+2*kill {
				return fmt.Errorf("%d mounts", n)
			}
			return nil
		})
		s.kill(2)
		keeps(fmt.Sprintf("killed%d", kill))
	}
	for _, name := range names {
		s.runs(name)
		if out, err := s.in(name, "write", "/tmp/mine", name); err != nil {
			t.Errorf("%s: %s, %v", name, out, err)
		}
		if out, err := s.in(name, "read", "/home/before"); err != nil || out != "before" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}

	// The driver is replaced. Until it is back, a pod that is deleted waits.
	s.Kubectl("-n", "datamove", "delete", "pod", "-l", "app.kubernetes.io/component=csi-node", "--field-selector=spec.nodeName=node2", "--wait=false")
	s.Kubectl(append([]string{"delete", "pod", "--wait=false"}, names...)...)
	keeps("replaced")
	s.Eventually("the pods are gone", 2*time.Minute, s.none("pods", `{range .items[?(@.metadata.name!="old")]}{.metadata.name} {end}`))
	s.Eventually("no scratch is left", time.Minute, func() error {
		out, err := s.Inside(2, "ls", "/opt/nvme/k8s/volumes", "/opt/nvme/k8s/trash")
		if err == nil && len(strings.Fields(out)) != 2 {
			err = errors.New(out)
		}
		return err
	})
	if n := s.mounts(2); n != 1 {
		t.Errorf("%d mounts are left, and one pod", n)
	}
	keeps("after")

	// The release is upgraded, one node after the other, and both are as they were.
	s.Helm("upgrade", "datamove", filepath.Join(module, "deploy/helm/datamove"), "--namespace=datamove", "--reuse-values", "--set=driver.node.podAnnotations.upgraded=yes")
	s.Eventually("the drivers of nodes are new", 2*time.Minute, func() error {
		_, err := s.Try("-n", "datamove", "rollout", "status", "daemonset/datamove-csi-node", "--timeout=5s")
		return err
	})
	keeps("upgraded")
	s.Apply(pod("new", "nodeSelector: {kubernetes.io/hostname: node2},", volumes))
	s.runs("new")
	for _, when := range []string{"before", "killed0", "killed2", "replaced", "after", "upgraded"} {
		if out, err := s.in("old", "read", "/home/"+when); err != nil || out != when {
			t.Errorf("%q, %v", out, err)
		}
	}
}

// mounts counts those of volumes of ours for pods of node n.
func (s *site) mounts(n int) (count int) {
	s.Helper()
	out := must.Get(s.Inside(n, "cat", "/proc/self/mountinfo"))(s.T)
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], "/var/lib/kubelet/pods/") && strings.Contains(fields[4], "/volumes/kubernetes.io~csi/") {
			count++
		}
	}
	return count
}

// kill kills the driver of node n, as the kernel does that runs out of memory.
func (s *site) kill(n int) {
	s.Helper()
	s.Eventually("the driver is killed", time.Minute, func() error {
		id, err := s.Try("-n", "datamove", "get", "pod", "-l", "app.kubernetes.io/component=csi-node", fmt.Sprintf("--field-selector=spec.nodeName=node%d", n),
			"-o", "jsonpath={.items[0].status.containerStatuses[0].containerID}")
		if err != nil {
			return err
		}
		out, err := s.Inside(n, "ctr", "--namespace=k8s.io", "tasks", "kill", "--signal=SIGKILL", strings.TrimPrefix(id, "containerd://"))
		if err != nil {
			return fmt.Errorf("%s: %w", out, err)
		}
		return nil
	})
}
