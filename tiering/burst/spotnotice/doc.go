// Package spotnotice hears from AWS that the instance on which this process runs is about to go.
//
// Its words: a notice says what is to happen to the instance, and when. An interruption takes a spot instance back; a rebalance
// says that this is likely, and sets no time; a lifecycle is an Auto Scaling group that ends the instance; a maintenance is an event
// that AWS has scheduled, maybe days ahead. The metadata service is the web server that each EC2 instance finds at a link-local address.
//
// The caller is told once for each notice that is a new one. AWS makes notices known as well as it can and promises none, so nothing may rely
// on them. The service is asked by its second version alone, with a token; a reply is held to a size and a form, a redirect is not
// followed, no proxy is asked, and no question takes longer than [Patience]. Off EC2 there is no such service: [Watcher.Run] asks once, and ends with an
// error of the kind mover.ErrUnreachable. Later silence is no error: it is said once, and asked on.
//
// What to do about a notice is for others: see tiering/checkpoint/replicate. A Watcher is one goroutine, and keeps nothing. TestRun has each notice and what a
// bad service can do, FuzzRead what can stand in a reply; package noticetest is a service that demands what the real one does. It was never run on EC2.
//
// Sources, all of AWS: "Spot Instance interruption notices" (spot/instance-action, its actions and time, two minutes, a question every 5 seconds),
// "EC2 instance rebalance recommendations" (events/recommendations/rebalance, noticeTime), "Retrieve the target lifecycle state through instance
// metadata" of Auto Scaling (its words), "Scheduled events for your instances" and InstanceStatusEvent of the EC2 API (codes), and
// aws/aws-node-termination-handler (pkg/ec2metadata and pkg/monitor/scheduledevent: form of scheduled events and of their times).
package spotnotice
