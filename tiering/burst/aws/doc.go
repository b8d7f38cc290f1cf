// Package aws asks AWS what a burst needs of it: file systems of FSx for Lustre, their association with a bucket and the tasks that export and import, instances of EC2, what clients
// did (CloudWatch), what was paid (Cost Explorer), and a session under a role (STS).
//
// An [Account] is AWS in one region, under one identity. Each call is one of the API's, tried again with growing, random pauses while AWS says that it is too busy or has failed; what is made has a
// token, so that a call can be made again when its answer is lost. [Account.Await] waits for a state. Nothing is decided here, and nothing is remembered: that is package burst. Errors are of
// the kinds of mover, in one table (kindOf). What is odd in an answer is mover.ErrCorrupt, and nothing is concluded from it. An Account may be used by any number of goroutines. TestOperations, TestKinds, TestAnswerLost, TestExpiry
// and TestHostile show it.
//
// None of it ever ran against AWS itself. It was written from the API references of FSx (2018-03-01), STS (2011-06-15), EC2 (2016-11-15), CloudWatch (2010-08-01) and Cost Explorer (2017-10-25), and is tested
// against test/aws, every request and reply of which the service models of botocore are asked about. What that can not show: how long states last, how AWS throttles, which figures
// CloudWatch has of an idle file system and how late, whether capacity is there, whether an EFA works, what an export does with files that change. `make e2e-aws` tries it with an account.
package aws
