package burst

import (
	"os"
	"reflect"
	"testing"

	"datamove.dev/test/must"
)

// TestExamples: the examples that come with the program are read, and the admission among them is the usual one.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile("../../deploy/examples/burst/llama-ft.yaml")
	must.Do(t, err)
	all, err := Read("llama-ft.yaml", text)
	if err != nil || len(all) != 1 || all[0].Spec.Cap == 0 {
		t.Errorf("%v, %v", all, err)
	}
	if text, err = os.ReadFile("../../deploy/examples/burst/admission.yaml"); err != nil {
		t.Fatal(err)
	}
	example, err := ReadAdmission("admission.yaml", text)
	must.Do(t, err)
	usual, err := ReadAdmission("usual", []byte(DefaultAdmission))
	if err != nil || len(usual.Rules) != len(example.Rules) {
		t.Fatalf("%+v, %v", example.Rules, err)
	}
	for i := range usual.Rules {
		usual.Rules[i].At, example.Rules[i].At = usual.At, usual.At
		if !reflect.DeepEqual(usual.Rules[i], example.Rules[i]) {
			t.Errorf("%+v, and the usual one is %+v", example.Rules[i], usual.Rules[i])
		}
	}
}
