// Package deploy holds what is below deploy/ to what it is for: the Helm chart, the manifests
// that are made from it, and the examples.
//
// Every document is read into the types of Kubernetes, where a name that they do not have is an error; what
// is in it for our own programs is read by them. What pods may do is held to a list. The
// cluster itself is in test/k8s: here nothing is started but helm and kubeconform.
package deploy
