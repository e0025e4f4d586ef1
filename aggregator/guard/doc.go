// Package guard publishes in the cluster of a cell which pods are protected, for node guards, and determines in which of its
// namespaces the webhook guards pods: it labels those with protectors, and reports those that are exempt.
package guard
