// Package s3api makes the calls of the S3 API on one bucket: of AWS S3, or of a server with the same API.
//
// # Words
//
// A [Client] is made by [Dial] of [Options], and is a [Store]: single calls, which have the names of the API or nearly so. It owns
// the connections, the keys, the endpoint and the region, each with what the AWS environment says of it. [Put] is what a call stores,
// [Object] and [Stored] are what the server says. amazon is the Store over aws-sdk-go-v2, onprem the one over minio-go.
//
// # Promises
//
// All methods may be called from many goroutines. Every call is one request, tried once, but that other keys are asked for where the
// store says that those of before have ended. No payload is hashed, neither here nor by the clients below. A server that is silent
// for Options.Stall is given up (mover.ErrTransient and ErrTimeout). When a caller's context ends, a call that changes something and has
// been sent whole waits two seconds for its answer.
//
// Each error has one kind of mover, as two tables of error codes and HTTP statuses say (errors.go, TestCodes), and the cause that package
// remedy goes by. What the server says stands in it; keys and tokens never do (TestKeyFileNeverTells, TestSecret).
//
// # Left to others
//
// Retries (mover/backend/retry); what an answer is worth: which server keeps conditions and checksums is found out by package s3, and so
// is whether an object is encrypted as it was asked for. Names, facts and manifests are those of package s3, too.
//
// TestContract and TestHostile of package s3 run both clients against real servers and against one that lies.
package s3api
