package pricing

import "fmt"

// The names by which this program asks a book.
const (
	FSxScratch2     = "fsx.scratch_2"         // GB-month of provisioned storage
	FSxMetadataIOPS = "fsx.metadata_iops"     // IOPS-month, beyond what comes with the storage
	S3Standard      = "s3.standard"           // GB-month
	S3Put           = "s3.put"                // PUT, COPY, POST, LIST, and every part of an upload
	S3Get           = "s3.get"                // GET and the rest
	S3Express       = "s3.express"            // GB-month
	KMSRequest      = "kms.request"           // of SSE-KMS
	EgressInternet  = "egress.internet"       // GB out of AWS
	EgressDirect    = "egress.direct-connect" // GB out of AWS
	EgressVPN       = "egress.vpn"            // GB out of AWS
	EgressRegion    = "egress.inter-region"   // GB to another region
	EgressZone      = "egress.inter-az"       // GB to another zone: AWS counts them once at each end
	NATBytes        = "nat.gb"                // GB through a NAT gateway, in both directions
	VPNHour         = "vpn.hour"              // of one connection
)

// FSxPersistent2 is the rate of a PERSISTENT_2 file system with a throughput of 125, 250, 500 or 1000 MB/s per TiB.
func FSxPersistent2(mbPerSecPerTiB int32) string {
	return fmt.Sprintf("fsx.persistent_2.%d", mbPerSecPerTiB)
}

// EC2 is the rate of an hour of an instance type, on demand, with Linux.
func EC2(instanceType string) string { return "ec2." + instanceType }
