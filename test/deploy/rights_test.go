package deploy

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// part is a pod that the chart makes, by its component.
type part struct {
	labels map[string]string
	corev1.PodTemplateSpec
}

func parts(all []any) map[string]part {
	found := map[string]part{}
	add := func(labels map[string]string, p corev1.PodTemplateSpec) {
		found[labels["app.kubernetes.io/component"]] = part{labels, p}
	}
	for _, o := range of[*appsv1.Deployment](all) {
		add(o.Labels, o.Spec.Template)
	}
	for _, o := range of[*appsv1.DaemonSet](all) {
		add(o.Labels, o.Spec.Template)
	}
	for _, o := range of[*appsv1.StatefulSet](all) {
		add(o.Labels, o.Spec.Template)
	}
	return found
}

// capabilities are what containers may have at most; everybody else has none.
var capabilities = map[string]string{
	"csi-controller/driver": "SYS_ADMIN CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID",
	"agent/agent":           "SETUID SETGID KILL CHOWN FOWNER FSETID DAC_OVERRIDE DAC_READ_SEARCH MKNOD SETFCAP LINUX_IMMUTABLE LEASE SYS_ADMIN",
}

// Nothing has more than it needs: one container is privileged, and each of the others drops everything and
// gets back what is on the list.
func TestPods(t *testing.T) {
	for _, values := range settings(t) {
		for component, p := range parts(objects(t, values, render(t, values))) {
			for _, c := range p.Spec.Containers {
				where, s := values+": "+component+"/"+c.Name, c.SecurityContext
				if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
					t.Errorf("%s: its root can be written to", where)
				}
				if c.Resources.Requests.Memory().IsZero() {
					t.Errorf("%s: no memory is asked for", where)
				}
				if component == "csi-node" {
					continue // it mounts
				}
				if s.Privileged != nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
					t.Errorf("%s: %+v", where, s)
				}
				may := strings.Fields(capabilities[component+"/"+c.Name])
				for _, has := range s.Capabilities.Add {
					if !slices.Contains(may, string(has)) {
						t.Errorf("%s: capability %s", where, has)
					}
				}
				if p.Spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
					t.Errorf("%s: seccomp", where)
				}
			}
			if c := p.Spec.SecurityContext; component == "coordinator" && (c.RunAsNonRoot == nil || !*c.RunAsNonRoot || *c.RunAsUser == 0) {
				t.Errorf("%s: the coordinator is root", values)
			}
			if component == "agent" && (p.Spec.AutomountServiceAccountToken == nil || *p.Spec.AutomountServiceAccountToken) {
				t.Errorf("%s: agents have a token of the API server", values)
			}
		}
	}
}

// Pods come to nodes with Linux only, also where somebody says which of those.
func TestOnLinux(t *testing.T) {
	for _, values := range settings(t) {
		for component, p := range parts(objects(t, values, render(t, values))) {
			if p.Spec.NodeSelector["kubernetes.io/os"] != "linux" {
				t.Errorf("%s: %s: %v", values, component, p.Spec.NodeSelector)
			}
		}
	}
	if p := parts(objects(t, "", render(t, filepath.Join("values", "full.yaml"))))["agent"]; p.Spec.NodeSelector["storage"] != "yes" {
		t.Errorf("what is said counts: %v", p.Spec.NodeSelector)
	}
}

// On the network of one node each program has ports of its own.
func TestPortsOfANode(t *testing.T) {
	text, err := with(t, "--set", "mover.coordinator.hostNetwork=true,mover.coordinator.address=head:7643,mover.agent.hostNetwork=true")
	if err != nil {
		t.Fatal(text)
	}
	owner := map[int32]string{}
	for component, p := range parts(objects(t, "", text)) {
		for _, c := range p.Spec.Containers {
			for _, port := range c.Ports {
				if other := owner[port.ContainerPort]; other != "" && p.Spec.HostNetwork {
					t.Errorf("%s and %s have %d", component, other, port.ContainerPort)
				}
				if p.Spec.HostNetwork {
					owner[port.ContainerPort] = component
				}
			}
		}
	}
	if len(owner) < 5 {
		t.Errorf("%v", owner)
	}
}

// Whom a policy lets in by address is seen by address; and with metricsFrom nobody else is told metrics.
func TestWhoIsLetIn(t *testing.T) {
	full := objects(t, "", render(t, filepath.Join("values", "full.yaml")))
	for _, s := range of[*corev1.Service](full) {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
			t.Errorf("%s: %s", s.Name, s.Spec.ExternalTrafficPolicy)
		}
	}
	metrics := 0
	for _, p := range of[*networkingv1.NetworkPolicy](full) {
		for _, in := range p.Spec.Ingress {
			if in.Ports[0].Port.StrVal != "http" {
				continue
			}
			metrics++
			if len(in.From) != 1 || in.From[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "monitoring" {
				t.Errorf("%s: metrics are for %+v", p.Name, in.From)
			}
		}
	}
	if metrics != 4 {
		t.Errorf("%d policies are about metrics", metrics)
	}
	for set, want := range map[string]corev1.ServiceExternalTrafficPolicy{
		"mover.coordinator.service.type=LoadBalancer":                                                   "Cluster",
		"mover.coordinator.service.type=NodePort,mover.coordinator.service.externalTrafficPolicy=Local": "Local",
		"mover.coordinator.service.type=ClusterIP":                                                      "",
	} {
		text, err := with(t, "--set", set)
		if err != nil {
			t.Fatal(text)
		}
		for _, s := range of[*corev1.Service](objects(t, set, text)) {
			if s.Spec.ExternalTrafficPolicy != want {
				t.Errorf("%s: %q", set, s.Spec.ExternalTrafficPolicy)
			}
		}
	}
}

// Who has directories of the node may touch them where SELinux is enforcing; a coordinator that has none is as confined as any pod.
func TestSELinux(t *testing.T) {
	for _, values := range settings(t) {
		for component, p := range parts(objects(t, values, render(t, values))) {
			host := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
			if s := p.Spec.Containers[0].SecurityContext; s.Privileged != nil && *s.Privileged {
				continue // it is by itself
			}
			as := ""
			if s := p.Spec.SecurityContext.SELinuxOptions; s != nil {
				as = s.Type
			}
			if host && as != "spc_t" || component == "coordinator" && !host && as != "" {
				t.Errorf("%s: %s has directories of its node: %v, and is %q", values, component, host, as)
			}
		}
		for _, d := range of[*storagev1.CSIDriver](objects(t, values, render(t, values))) {
			if want := strings.HasSuffix(values, "selinux.yaml"); *d.Spec.SELinuxMount != want {
				t.Errorf("%s: seLinuxMount is %v", values, *d.Spec.SELinuxMount)
			}
		}
	}
	if out, err := with(t, "--set-json", "seLinuxOptions=null"); err != nil || strings.Contains(out, "seLinuxOptions") {
		t.Errorf("it can be left to the runtime: %v", err)
	}
}

// Mounts go out of the pod of a node only: its kubelet's directories, and what the driver mounts itself.
func TestPropagation(t *testing.T) {
	for _, values := range settings(t) {
		all := objects(t, values, render(t, values))
		mounted := ownMounts(t, all)
		for component, p := range parts(all) {
			for _, c := range p.Spec.Containers {
				for _, m := range c.VolumeMounts {
					out := m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationBidirectional
					if out && (component != "csi-node" || m.Name != "kubelet" && !mounted[m.MountPath]) {
						t.Errorf("%s: %s/%s: %s", values, component, c.Name, m.MountPath)
					}
				}
			}
		}
	}
}

// row is one of the README's table of rules: who, scope, group, resources, verbs.
var row = regexp.MustCompile(`(?m)^\| (\S*) ?\| (cluster|namespace) \| (\S+) \| ([^|]+) \| ([a-z ]+) \| [^|]+ \|$`)

// documented are the rights that the README tells, by component: "cluster /nodes get", with the group before the slash.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	who := ""
	for _, m := range row.FindAllStringSubmatch(document(t, filepath.Join(chart, "README.md")), -1) {
		if m[1] != "" {
			who = map[string]string{"controller": "csi-controller", "node": "csi-node"}[m[1]]
			who = cmp.Or(who, m[1])
		}
		group := strings.TrimSuffix(m[3], "core")
		resources, name, _ := strings.Cut(strings.ReplaceAll(m[4], "`", ""), " named ")
		for resource := range strings.FieldsSeq(resources) {
			for verb := range strings.FieldsSeq(m[5]) {
				all[who] = append(all[who], right(m[2], group, resource, name, verb))
			}
		}
	}
	return all
}

func right(scope, group, resource, name, verb string) string {
	return strings.TrimSpace(scope + " " + group + "/" + resource + " " + verb + " " + name)
}

// What the chart lets its ServiceAccounts do is what the README says, in that scope and for that group, and nothing more;
// each has its own role, and no other one.
func TestRules(t *testing.T) {
	told := documented(t)
	seen := map[string]bool{}
	for _, values := range settings(t) {
		all := objects(t, values, render(t, values))
		made := map[string][]string{}
		add := func(scope string, labels map[string]string, rules []rbacv1.PolicyRule) {
			component := labels["app.kubernetes.io/component"]
			for _, r := range rules {
				for _, group := range r.APIGroups {
					for _, resource := range r.Resources {
						for _, verb := range r.Verbs {
							name := strings.Replace(strings.Join(r.ResourceNames, ","), "mover-", "datamove-", 1) // of the release with another name
							made[component] = append(made[component], right(scope, group, resource, name, verb))
						}
					}
				}
			}
		}
		for _, r := range of[*rbacv1.ClusterRole](all) {
			add("cluster", r.Labels, r.Rules)
		}
		for _, r := range of[*rbacv1.Role](all) {
			add("namespace", r.Labels, r.Rules)
		}
		for component, rights := range made {
			seen[component] = true
			want := slices.Sorted(slices.Values(told[component]))
			if slices.Sort(rights); !slices.Equal(rights, want) {
				t.Errorf("%s: %s may\n%s\nand README.md says\n%s", values, component, strings.Join(rights, "\n"), strings.Join(want, "\n"))
			}
		}
		bound := func(name string, to rbacv1.RoleRef, subjects []rbacv1.Subject) {
			if to.Name != name || len(subjects) != 1 || subjects[0] != (rbacv1.Subject{Kind: "ServiceAccount", Name: name, Namespace: "datamove"}) {
				t.Errorf("%s: %s is bound to %+v for %+v", values, name, to, subjects)
			}
		}
		for _, b := range of[*rbacv1.ClusterRoleBinding](all) {
			bound(b.Name, b.RoleRef, b.Subjects)
		}
		for _, b := range of[*rbacv1.RoleBinding](all) {
			bound(b.Name, b.RoleRef, b.Subjects)
		}
	}
	for component := range told {
		if !seen[component] {
			t.Errorf("README.md has rights of %s, and the chart none", component)
		}
	}
	if len(told) != 3 {
		t.Errorf("README.md has rights of %v", slices.Collect(maps.Keys(told)))
	}
}

// The driver's object says what the driver is.
func TestDriverObject(t *testing.T) {
	all := of[*storagev1.CSIDriver](objects(t, "", render(t, "")))
	if len(all) != 1 {
		t.Fatalf("%d of them", len(all))
	}
	s := all[0].Spec
	if *s.AttachRequired || !*s.PodInfoOnMount || *s.FSGroupPolicy != storagev1.NoneFSGroupPolicy || !*s.StorageCapacity || *s.SELinuxMount || *s.RequiresRepublish || len(s.TokenRequests) > 0 {
		t.Errorf("%+v", s)
	}
	if all[0].Labels["security.kubernetes.io/csi-ephemeral-volume-profile"] != "restricted" || len(s.VolumeLifecycleModes) != 2 {
		t.Errorf("%+v", all[0])
	}
}
