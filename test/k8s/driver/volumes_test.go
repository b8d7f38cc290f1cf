package driver

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/k8s"
	"datamove.dev/test/must"
)

func command(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	return string(out), err
}

// claim is one of a class.
func claim(name, class, size, more string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s}, spec: {storageClassName: %s, accessModes: [%s], resources: {requests: {storage: %s}}%s}}\n---\n",
		name, class, map[bool]string{true: "ReadWriteOnce", false: "ReadWriteMany"}[class == "scratch"], size, more)
}

// pod runs the worker with volumes at /NAME.
func pod(name, more string, volumes map[string]string) string {
	var mounts, list []string
	for volume, source := range volumes {
		mounts = append(mounts, fmt.Sprintf("{name: %[1]s, mountPath: /%[1]s}", volume))
		list = append(list, fmt.Sprintf("{name: %s, %s}", volume, source))
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {dnsPolicy: Default, terminationGracePeriodSeconds: 1, %s containers: [{name: worker, image: "%s", args: [pause], volumeMounts: [%s]}], volumes: [%s]}}`+"\n---\n",
		name, more, k8s.Worker, strings.Join(mounts, ", "), strings.Join(list, ", "))
}

func claimed(name string) string { return "persistentVolumeClaim: {claimName: " + name + "}" }

// plain is what the API server thinks of the manifests for kubectl.
func (s *site) plain() {
	s.Helper()
	for _, dir := range []string{"", "snapshots", "attributes"} {
		s.Kubectl("apply", "--dry-run=server", "-k", filepath.Join(module, "deploy/kubernetes", dir))
	}
}

// TestVolumes: what a researcher does with a project, and with scratch.
func TestVolumes(t *testing.T) {
	s := install(t, (*site).plain)
	s.Apply(claim("home", "project", "20Mi", "") + pod("one", "nodeName: node1,", map[string]string{"home": claimed("home")}) + pod("two", "nodeName: node2,", map[string]string{"home": claimed("home")}))
	s.runs("one")
	s.runs("two")
	if out, err := s.in("one", "fill", "/home/a", fmt.Sprint(40<<20)); err == nil || !strings.Contains(out+err.Error(), "EDQUOT") {
		t.Errorf("more than its capacity: %s, %v", out, err)
	}
	s.Kubectl("patch", "pvc", "home", "--type=merge", "-p", `{"spec": {"resources": {"requests": {"storage": "80Mi"}}}}`)
	s.Eventually("the claim is larger", time.Minute, func() error {
		out, err := s.Try("get", "pvc", "home", "-o", "jsonpath={.status.capacity.storage}")
		if err == nil && out != "80Mi" {
			err = fmt.Errorf("it has %s", out)
		}
		return err
	})
	if out, err := s.in("one", "fill", "/home/b", fmt.Sprint(30<<20)); err != nil {
		t.Errorf("after it has grown: %s, %v", out, err)
	}
	_, err := s.in("one", "write", "/home/note", "kept")
	must.Do(t, err)
	s.snapshot("snap", "home")
	_, err = s.in("two", "write", "/home/note", "lost")
	must.Do(t, err)
	s.Apply(claim("again", "project", "80Mi", ", dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: snap}") + pod("three", "", map[string]string{"again": claimed("again")}))
	s.runs("three")
	if out, err := s.in("three", "read", "/again/note"); err != nil || out != "kept" {
		t.Errorf("restored: %q, %v", out, err)
	}
	s.ofOneNode()
}

// ofOneNode: a volume for one node is on one, also for pods of which the scheduler is not asked.
func (s *site) ofOneNode() {
	s.Helper()
	s.Apply(strings.Replace(claim("mine", "project", "20Mi", ""), "ReadWriteMany", "ReadWriteOnce", 1) + pod("here", "nodeName: node1,", map[string]string{"mine": claimed("mine")}))
	s.runs("here")
	s.Apply(pod("there", "nodeName: node2,", map[string]string{"mine": claimed("mine")}))
	s.Eventually("the second node is refused", time.Minute, func() error {
		out, err := s.Try("get", "events", "-o", `jsonpath={range .items[*]}{.involvedObject.name} {.reason} {.message}{"\n"}{end}`)
		if err == nil && !strings.Contains(out, "and node node1 has it") {
			err = errors.New(out)
		}
		return err
	})
	s.Kubectl("delete", "pod", "here")
	s.runs("there")
}

// TestScratch: scratch lies on the node of its pod, no pod gets more of it than there is, and nothing of it is left when the pod is gone.
func TestScratch(t *testing.T) {
	s := install(t)
	ephemeral := "ephemeral: {volumeClaimTemplate: {spec: {storageClassName: scratch, accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}}}}"
	s.Apply(pod("one", "", map[string]string{"tmp": fmt.Sprintf(ephemeral, "20Mi")}))
	s.runs("one")
	if out, err := s.in("one", "fill", "/tmp/a", fmt.Sprint(40<<20)); err == nil || !strings.Contains(out+err.Error(), "EDQUOT") {
		t.Errorf("more than its capacity: %s, %v", out, err)
	}
	node := s.Kubectl("get", "pod", "one", "-o", "jsonpath={.spec.nodeName}")
	n := int(node[len(node)-1] - '0')
	volumes := func() string {
		t.Helper()
		out := must.Get(s.Inside(n, "ls", "/opt/nvme/k8s/volumes", "/opt/nvme/k8s/trash"))(t)
		return out
	}
	if out := volumes(); len(strings.Fields(out)) != 3 {
		t.Errorf("%s has %q", node, out)
	}
	s.Kubectl("delete", "pod", "one", "--wait")
	s.Eventually("the scratch of the pod is gone", time.Minute, func() error {
		if out := volumes(); len(strings.Fields(out)) != 2 {
			return fmt.Errorf("%q", out)
		}
		return nil
	})

	// 3 GiB fit on a node once.
	for _, name := range []string{"big1", "big2", "big3"} {
		s.Apply(pod(name, "", map[string]string{"tmp": fmt.Sprintf(ephemeral, "3Gi")}))
	}
	s.Eventually("two of three have room, on two nodes", 2*time.Minute, func() error {
		out, err := s.Try("get", "pods", "-o", `jsonpath={range .items[*]}{.status.phase}:{.spec.nodeName} {end}`)
		if err == nil && (strings.Count(out, "Running:") != 2 || !strings.Contains(out, ":node1 ") || !strings.Contains(out, ":node2 ") || !strings.Contains(out, "Pending: ")) {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
}

// TestScratchRestored: a snapshot of scratch is on the node of its volume. A pod that has to be elsewhere waits, with the reason in
// the events of its claim; one that does not have to be comes there.
func TestScratchRestored(t *testing.T) {
	s := install(t)
	s.Apply(claim("data", "scratch", "20Mi", "") + pod("one", "nodeSelector: {kubernetes.io/hostname: node1},", map[string]string{"data": claimed("data")}))
	s.runs("one")
	_, err := s.in("one", "write", "/data/note", "kept")
	must.Do(t, err)
	s.snapshot("snap", "data")
	restored := func(name, where string) {
		s.Apply(claim(name, "scratch", "20Mi", ", dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: snap}") + pod(name, where, map[string]string{"data": claimed(name)}))
	}
	restored("elsewhere", "nodeSelector: {kubernetes.io/hostname: node2},")
	s.Eventually("the claim says why", time.Minute, func() error {
		events, err := s.Try("get", "events", "--field-selector=involvedObject.name=elsewhere", "-o", `jsonpath={range .items[*]}{.reason} {.message}{"\n"}{end}`)
		if err == nil && (!strings.Contains(events, "ResourceExhausted") || !strings.Contains(events, "is on node node1")) {
			err = errors.New(events)
		}
		return err
	})
	restored("there", "")
	s.runs("there")
	if out, err := s.in("there", "read", "/data/note"); err != nil || out != "kept" {
		t.Errorf("restored: %q, %v", out, err)
	}
	if out := s.Kubectl("get", "pod", "there", "-o", "jsonpath={.spec.nodeName}"); out != "node1" {
		t.Errorf("it runs on %s", out)
	}
}
