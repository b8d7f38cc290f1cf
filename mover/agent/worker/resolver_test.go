package worker

import (
	"reflect"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// All that the agent says of a bucket is in the tier that is opened.
func TestTierHasAll(t *testing.T) {
	access := &agentv1.TierAccess{S3: true, PathStyle: true, PathStyleSet: true}
	v := reflect.ValueOf(access).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() && v.Field(i).Kind() == reflect.String {
			v.Field(i).SetString("of " + v.Type().Field(i).Name)
		}
	}
	s := tierOf(access).S3
	got := reflect.ValueOf(s).Elem()
	for i := range got.NumField() {
		if got.Field(i).IsZero() && got.Type().Field(i).Name != "Trusted" { // the agent says it in the spec
			t.Errorf("without %s", got.Type().Field(i).Name)
		}
	}
	if s.Encryption != "of Encryption" || s.KMSKey != "of KmsKey" || s.RequireRegion != "of RequireRegion" || !*s.PathStyle {
		t.Errorf("%+v", s)
	}
}
