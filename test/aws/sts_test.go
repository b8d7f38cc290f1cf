package aws

import (
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"datamove.dev/test/must"
)

const onlyDescribe = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"fsx:Describe*","Resource":"*","Condition":{"StringEquals":{"aws:RequestedRegion":"us-east-1"}}}}`

// as is a config with the credentials of a session.
func as(t *testing.T, s *Server, c sdk.Config, in *sts.AssumeRoleInput) sdk.Config {
	t.Helper()
	out := must.Get(sts.NewFromConfig(c).AssumeRole(t.Context(), in))(t)
	c.Credentials = Static(*out.Credentials.AccessKeyId, *out.Credentials.SecretAccessKey, *out.Credentials.SessionToken)
	return c
}

func withRole(t *testing.T, o Options) *Server {
	t.Helper()
	s := New(o)
	must.Do(t, s.AddRole(Role{Name: "burst", ExternalID: "team-a"}))
	return s
}

func TestSessionMayWhatItsPolicySays(t *testing.T) {
	now := NewClock()
	s := withRole(t, Options{Now: now.Now, Regions: []string{"us-east-1", "eu-central-1"}})
	session := as(t, s, once(s), &sts.AssumeRoleInput{RoleArn: sdk.String(RoleARN("burst")), RoleSessionName: sdk.String("job-7"), ExternalId: sdk.String("team-a"),
		Policy: sdk.String(onlyDescribe), DurationSeconds: sdk.Int32(900)})
	client := fsx.NewFromConfig(session)
	_, err := client.DescribeFileSystems(t.Context(), nil)
	wants(t, err, "")
	_, err = client.CreateFileSystem(t.Context(), scratch("x"))
	wants(t, err, "AccessDeniedException")
	session.Region = "eu-central-1"
	_, err = fsx.NewFromConfig(session).DescribeFileSystems(t.Context(), nil)
	wants(t, err, "AccessDeniedException")
	who := must.Get(sts.NewFromConfig(session).GetCallerIdentity(t.Context(), nil))(t)
	if *who.Arn != "arn:aws:sts::123456789012:assumed-role/burst/job-7" || *who.Account != Account {
		t.Errorf("the session is %s", *who.Arn)
	}
	now.Pass(15 * time.Minute)
	_, err = client.DescribeFileSystems(t.Context(), nil)
	wants(t, err, "ExpiredTokenException")
	_, err = sts.NewFromConfig(session).GetCallerIdentity(t.Context(), nil)
	wants(t, err, "ExpiredToken")
	_, err = ec2Call(t, session, "DescribeInstances")
	wants(t, err, "RequestExpired")
}

func TestSignatureIsVerified(t *testing.T) {
	s := serve(t, Options{})
	for _, row := range []struct{ name, access, secret, token, json, query string }{
		{"right", OwnerKey, OwnerSecret, "", "", ""},
		{"another secret", OwnerKey, "another", "", "InvalidSignatureException", "SignatureDoesNotMatch"},
		{"unknown key", "AKIA0000000000000000", OwnerSecret, "", "UnrecognizedClientException", "InvalidClientTokenId"},
		{"a token where there is none", OwnerKey, OwnerSecret, "token", "UnrecognizedClientException", "InvalidClientTokenId"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := once(s)
			c.Credentials = Static(row.access, row.secret, row.token)
			_, err := fsx.NewFromConfig(c).DescribeFileSystems(t.Context(), nil)
			wants(t, err, row.json)
			_, err = sts.NewFromConfig(c).GetCallerIdentity(t.Context(), nil)
			wants(t, err, row.query)
		})
	}
}

func TestRolesAreAskedFor(t *testing.T) {
	s := withRole(t, Options{Now: NewClock().Now})
	must.Do(t, s.AddRole(Role{Name: "pod", WebTokens: map[string]string{"a.b.c": "system:serviceaccount:train:mover"}, Policy: onlyDescribe}))
	client := sts.NewFromConfig(once(s))
	good := sts.AssumeRoleInput{RoleArn: sdk.String(RoleARN("burst")), RoleSessionName: sdk.String("job-7"), ExternalId: sdk.String("team-a"),
		Tags: []types.Tag{{Key: sdk.String("team"), Value: sdk.String("a")}}}
	for _, row := range []struct {
		name, code string
		change     func(*sts.AssumeRoleInput)
	}{
		{"good", "", func(*sts.AssumeRoleInput) {}},
		{"another external id", "AccessDenied", func(in *sts.AssumeRoleInput) { in.ExternalId = sdk.String("team-b") }},
		{"another role", "AccessDenied", func(in *sts.AssumeRoleInput) { in.RoleArn = sdk.String(RoleARN("admin")) }},
		{"too short", "ValidationError", func(in *sts.AssumeRoleInput) { in.DurationSeconds = sdk.Int32(899) }},
		{"too long", "ValidationError", func(in *sts.AssumeRoleInput) { in.DurationSeconds = sdk.Int32(3601) }},
		{"a name with a space", "ValidationError", func(in *sts.AssumeRoleInput) { in.RoleSessionName = sdk.String("job 7") }},
		{"no JSON", "MalformedPolicyDocument", func(in *sts.AssumeRoleInput) { in.Policy = sdk.String("{") }},
		{"a condition that is not understood", "MalformedPolicyDocument", func(in *sts.AssumeRoleInput) {
			in.Policy = sdk.String(strings.Replace(onlyDescribe, "StringEquals", "IpAddress", 1))
		}},
		{"2049 characters", "ValidationError", func(in *sts.AssumeRoleInput) {
			in.Policy = sdk.String(onlyDescribe + strings.Repeat(" ", 2049-len(onlyDescribe)))
		}},
		{"2048 characters", "", func(in *sts.AssumeRoleInput) {
			in.Policy = sdk.String(onlyDescribe + strings.Repeat(" ", 2048-len(onlyDescribe)))
		}},
		{"a parameter that the fake does not know", "InvalidParameterCombination", func(in *sts.AssumeRoleInput) { in.SourceIdentity = sdk.String("person") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := good
			row.change(&in)
			_, err := client.AssumeRole(t.Context(), &in)
			wants(t, err, row.code)
		})
	}
	for _, r := range s.Log() {
		if p, ok := r.Parameters["Policy"]; ok && p != "[secret]" {
			t.Errorf("the log has the policy %v", p)
		}
	}
	pod := &sts.AssumeRoleWithWebIdentityInput{RoleArn: sdk.String(RoleARN("pod")), RoleSessionName: sdk.String("pod-1"), WebIdentityToken: sdk.String("a.b.c")}
	c := once(s)
	c.Credentials = nil
	out := must.Get(sts.NewFromConfig(c).AssumeRoleWithWebIdentity(t.Context(), pod))(t)
	c.Credentials = Static(*out.Credentials.AccessKeyId, *out.Credentials.SecretAccessKey, *out.Credentials.SessionToken)
	_, err := fsx.NewFromConfig(c).DescribeFileSystems(t.Context(), nil)
	wants(t, err, "")
	_, err = fsx.NewFromConfig(c).CreateFileSystem(t.Context(), scratch("x"))
	wants(t, err, "AccessDeniedException")
	pod.WebIdentityToken = sdk.String("a.b.d")
	_, err = client.AssumeRoleWithWebIdentity(t.Context(), pod)
	wants(t, err, "InvalidIdentityToken")
	s.Revoke(*out.Credentials.AccessKeyId)
	_, err = fsx.NewFromConfig(c).DescribeFileSystems(t.Context(), nil)
	wants(t, err, "UnrecognizedClientException")
}

func TestPolicyKnowsTagsAndResources(t *testing.T) {
	now := NewClock()
	s := serve(t, Options{Now: now.Now})
	s.AddInstance(Instance{ID: "i-00000000000000001", Type: "c5.large", Tags: map[string]string{"team": "a"}})
	s.AddInstance(Instance{ID: "i-00000000000000002", Type: "c5.large", Tags: map[string]string{"team": "b"}})
	owner := fsx.NewFromConfig(once(s))
	a := must.Get(owner.CreateFileSystem(t.Context(), scratch("a")))(t).FileSystem
	b := must.Get(owner.CreateFileSystem(t.Context(), scratch("b")))(t).FileSystem
	policy := `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":"fsx:DeleteFileSystem","Resource":"` + *a.ResourceARN + `"},
		{"Effect":"Allow","Action":"fsx:CreateFileSystem","Resource":"arn:aws:fsx:*:*:file-system/*","Condition":{"StringEquals":{"aws:RequestTag/datamove:burst":["a","c"]}}},
		{"Effect":"Allow","Action":["ec2:*"],"Resource":"*","Condition":{"StringLike":{"aws:ResourceTag/team":"*"}}},
		{"Effect":"Deny","Action":"ec2:StopInstances","Resource":"*","Condition":{"StringNotEquals":{"aws:ResourceTag/team":"a"}}}]}`
	must.Do(t, s.AddKey("mover", "AKIAMOVERMOVERMOVER0", "secret", policy))
	c := once(s)
	c.Credentials = Static("AKIAMOVERMOVERMOVER0", "secret", "")
	client := fsx.NewFromConfig(c)
	_, err := client.DeleteFileSystem(t.Context(), &fsx.DeleteFileSystemInput{FileSystemId: b.FileSystemId})
	wants(t, err, "AccessDeniedException")
	_, err = client.DeleteFileSystem(t.Context(), &fsx.DeleteFileSystemInput{FileSystemId: a.FileSystemId})
	wants(t, err, "")
	_, err = client.CreateFileSystem(t.Context(), scratch("c"))
	wants(t, err, "")
	_, err = client.CreateFileSystem(t.Context(), scratch("d"))
	wants(t, err, "AccessDeniedException")
	_, err = ec2Call(t, c, "StopInstances", "InstanceId.1=i-00000000000000001")
	wants(t, err, "")
	_, err = ec2Call(t, c, "StopInstances", "InstanceId.1=i-00000000000000001", "InstanceId.2=i-00000000000000002")
	wants(t, err, "UnauthorizedOperation")
	_, err = ec2Call(t, c, "DescribeInstances")
	wants(t, err, "UnauthorizedOperation")
}

func TestOldSignature(t *testing.T) {
	now := NewClock()
	s := serve(t, Options{Now: now.Now, Skew: 15 * time.Minute})
	_, err := fsx.NewFromConfig(once(s)).DescribeFileSystems(t.Context(), nil)
	wants(t, err, "InvalidSignatureException")
}
