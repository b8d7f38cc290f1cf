package burst

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"datamove.dev/mover"
)

// policyMost bounds the text of a session policy, in characters (STS API reference, AssumeRole).
const policyMost = 2048

type statement struct {
	Effect    string
	Action    []string
	Resource  []string
	Condition map[string]map[string]string `json:",omitempty"`
}

// SessionPolicy is what a session of a burst may do at most, as STS takes it: objects below its prefix of its bucket, and file systems, instances and figures in its region. The role that
// is assumed may do less. So what is asked for in another region is refused by AWS, too. prefix is that of the burst in the bucket.
func (c *Cloud) SessionPolicy(bucket, prefix string) (string, error) {
	partition := "aws" // where no role says another one
	if c.Role != "" {
		partition = strings.SplitN(c.Role, ":", 3)[1]
	}
	arn, prefix := "arn:"+partition+":s3:::"+bucket, literal.Replace(prefix)
	here := map[string]map[string]string{"StringEquals": {"aws:RequestedRegion": c.Region}}
	policy := struct {
		Version   string
		Statement []statement
	}{"2012-10-17", []statement{
		{Effect: "Allow", Action: []string{"s3:GetObject", "s3:GetObjectAttributes", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"},
			Resource: []string{arn + "/" + prefix + "/*"}},
		{Effect: "Allow", Action: []string{"s3:ListBucket", "s3:ListBucketMultipartUploads"}, Resource: []string{arn},
			Condition: map[string]map[string]string{"StringLike": {"s3:prefix": prefix + "/*"}}},
		{Effect: "Allow", Action: []string{"s3:GetBucketLocation"}, Resource: []string{arn}},
		{Effect: "Allow", Action: []string{"fsx:*", "ec2:DescribeInstances", "ec2:StopInstances", "cloudwatch:GetMetricData",
			"kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey", "kms:CreateGrant"}, Resource: []string{"*"}, Condition: here},
		// FSx makes a role of its own for each file system that is joined to a bucket (FSx for Lustre User Guide, "Using service-linked roles").
		{Effect: "Allow", Action: []string{"iam:CreateServiceLinkedRole", "iam:AttachRolePolicy", "iam:PutRolePolicy"},
			Resource: []string{"arn:" + partition + ":iam::*:role/aws-service-role/s3.data-source.lustre.fsx.*"}},
		{Effect: "Allow", Action: []string{"ce:GetCostAndUsage"}, Resource: []string{"*"}}, // it is in one region for all
	}}
	plain, err := json.Marshal(policy)
	if err != nil {
		return "", err
	}
	text := ascii(plain)
	if len(text) > policyMost {
		return "", fmt.Errorf("%w: the session policy for s3://%s/%s has %d characters; STS takes %d: choose a shorter prefix", mover.ErrUsage, bucket, prefix, len(text), policyMost)
	}
	return text, nil
}

// literal has a policy take a name as it is, and not as a pattern or a variable (IAM User Guide, "IAM policy elements: Variables and tags").
var literal = strings.NewReplacer("*", "${*}", "?", "${?}", "$", "${$}")

// ascii is JSON in which each character beyond ASCII is escaped: STS takes none above U+00FF.
func ascii(text []byte) string {
	var b strings.Builder
	for _, c := range string(text) {
		switch {
		case c < 0x80:
			b.WriteRune(c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			first, second := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, first, second)
		}
	}
	return b.String()
}
