package deploy

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"
)

// types are those of Kubernetes, as of the version that go.mod names.
var types = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, storagev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict)
}()

// others are kinds that come with operators and controllers, as far as we use them.
var others = map[string]func() any{
	"monitoring.coreos.com/v1/ServiceMonitor":        func() any { return &serviceMonitor{} },
	"snapshot.storage.k8s.io/v1/VolumeSnapshotClass": func() any { return &snapshotClass{} },
	"snapshot.storage.k8s.io/v1/VolumeSnapshot":      func() any { return &snapshot{} },
	"kustomize.config.k8s.io/v1beta1/Kustomization":  func() any { return &kustomization{} },
	"cert-manager.io/v1/Certificate":                 func() any { return &map[string]any{} },
	"cert-manager.io/v1/Issuer":                      func() any { return &map[string]any{} },
}

type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector          metav1.LabelSelector `json:"selector"`
		NamespaceSelector struct {
			MatchNames []string `json:"matchNames"`
		} `json:"namespaceSelector"`
		Endpoints []struct {
			Port, Path, Interval string
			Relabelings          []struct {
				SourceLabels             []string `json:"sourceLabels"`
				TargetLabel, Replacement string
			}
		} `json:"endpoints"`
	} `json:"spec"`
}

type snapshotClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Driver            string            `json:"driver"`
	DeletionPolicy    string            `json:"deletionPolicy"`
	Parameters        map[string]string `json:"parameters"`
}

type snapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		VolumeSnapshotClassName string `json:"volumeSnapshotClassName"`
		Source                  struct {
			PersistentVolumeClaimName string `json:"persistentVolumeClaimName"`
		} `json:"source"`
	} `json:"spec"`
}

type kustomization struct {
	metav1.TypeMeta `json:",inline"`
	Namespace       string   `json:"namespace"`
	Resources       []string `json:"resources"`
}

// decode reads a document. A name that its type does not have, or that is there twice, is an error.
func decode(document string) (any, error) {
	var what metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &what); err != nil {
		return nil, err
	}
	if other := others[what.APIVersion+"/"+what.Kind]; other != nil {
		into := other()
		return into, yaml.UnmarshalStrict([]byte(document), into)
	}
	into, _, err := types.UniversalDeserializer().Decode([]byte(document), nil, nil)
	return into, err
}

// objects are all that a text has, decoded.
func objects(t *testing.T, name, text string) []any {
	t.Helper()
	var all []any
	for _, d := range split(text) {
		o, err := decode(d)
		if err != nil {
			t.Errorf("%s: %v in\n%s", name, err, d)
			continue
		}
		all = append(all, o)
	}
	return all
}

// of picks those of a type.
func of[T any](all []any) []T {
	var some []T
	for _, o := range all {
		if one, is := o.(T); is {
			some = append(some, one)
		}
	}
	return some
}

func TestStrict(t *testing.T) {
	for _, values := range settings(t) {
		if all := objects(t, values, render(t, values)); len(all) < 10 {
			t.Errorf("%s: %d objects", values, len(all))
		}
	}
}

// The check itself: what is misspelt, or there twice, or of no type that we know is found.
func TestStrictFinds(t *testing.T) {
	good := "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, image: i}]}\n"
	if _, err := decode(good); err != nil {
		t.Fatal(err)
	}
	for what, row := range map[string]string{
		"misspelt":    strings.Replace(good, "image:", "imagePath:", 1),
		"twice":       good + "spec: {}\n",
		"no type":     strings.Replace(good, "Pod", "Bod", 1),
		"wrong type":  strings.Replace(good, "[{name: c, image: i}]", "{name: c}", 1),
		"in our own":  "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshotClass\nmetadata: {name: x}\ndrivers: y\n",
		"not a thing": "- x\n",
	} {
		if _, err := decode(row); err == nil {
			t.Errorf("%s is not found", what)
		}
	}
}
