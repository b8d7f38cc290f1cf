// Package burstworker is the worker's side of bursts: it does one step of a burst, with the account of the burst's owner.
//
// The record and the money of a burst are kept by the coordinator; the worker asks for both over its agent, and keeps
// neither. What a step does in AWS and over the link is done by tiering/burst/lifecycle, each step again after a crash.
// The script burst-service.txt of test/script/service shows it, with a stand-in for AWS.
package burstworker
